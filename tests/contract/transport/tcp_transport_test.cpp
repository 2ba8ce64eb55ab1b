#include "contract/transport/tcp_fixture.hpp"
#include "contract/transport/transport_contract.hpp"

namespace tutti::transport::test {

INSTANTIATE_TYPED_TEST_SUITE_P(Tcp, TransportContract, TcpFixture);
INSTANTIATE_TYPED_TEST_SUITE_P(Tls, TransportContract, TlsFixture);

}  // namespace tutti::transport::test
