#include "conformance/transport/tcp_fixture.hpp"
#include "conformance/transport/transport_contract.hpp"

namespace tutti::transport::test {

INSTANTIATE_TYPED_TEST_SUITE_P(Tcp, TransportContract, TcpFixture);

}  // namespace tutti::transport::test
