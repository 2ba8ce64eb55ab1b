// <tutti/c.h>: messages between two ranks.
#include <vector>

#include "face.hpp"

using namespace tutti::c;  // NOLINT: the functions are C's

int tutti_send(tutti_group* group, const void* buffer, size_t count, int dtype, int dst, int tag,
               tutti_work** work) {
  return run(group, work, [&] {
    return of(group).isend(view(group, buffer, count, dtype), dst,
                           {.tag = tag, .timeout = group->settings.timeout});
  });
}

int tutti_recv(tutti_group* group, void* buffer, size_t count, int dtype, int src, int tag,
               int* source, tutti_work** work) {
  return run(
      group, work,
      [&] {
        return of(group).irecv(view(group, buffer, count, dtype), src,
                               {.tag = tag, .timeout = group->settings.timeout});
      },
      source);
}

int tutti_sendrecv(tutti_group* group, void* output, size_t output_count, int src, int recv_tag,
                   const void* input, size_t input_count, int dst, int send_tag, int dtype,
                   int* source) {
  return result_of([&] {
    tutti::ProcessGroup& its = of(group);
    const int sender = on_stream(group->settings, [&] {
      return its.sendrecv(
          view(group, output, output_count, dtype), src, view(group, input, input_count, dtype),
          dst, {.send_tag = send_tag, .recv_tag = recv_tag, .timeout = group->settings.timeout});
    });
    if (source != nullptr) *source = sender;
  });
}

int tutti_batch_isend_irecv(tutti_group* group, const tutti_p2p_op* ops, int count,
                            tutti_work** works) {
  return result_of([&] {
    const std::span<tutti_work*> handles = list_of(works, count, "works");
    for (tutti_work*& handle : handles) handle = nullptr;
    const std::span<const tutti_p2p_op> list = list_of(ops, count, "ops");
    tutti::ProcessGroup& its = of(group);
    std::vector<tutti::P2POp> all;
    std::vector<std::unique_ptr<tutti_work>> made;
    for (const tutti_p2p_op& op : list) {
      const tutti::TensorView buffer = view(group, op.buffer, op.count, op.dtype);
      all.push_back(op.is_send != 0 ? tutti::P2POp::isend(buffer, op.peer, op.tag)
                                    : tutti::P2POp::irecv(buffer, op.peer, op.tag));
      made.push_back(std::make_unique<tutti_work>());
    }
    std::vector<tutti::Work> started = on_stream(group->settings, [&] {
      return its.batch_isend_irecv(all, {.timeout = group->settings.timeout});
    });
    for (std::size_t i = 0; i < handles.size(); ++i) {
      made[i]->work = std::move(started[i]);
      handles[i] = made[i].release();
    }
  });
}

int tutti_probe(tutti_group* group, int source, int tag, tutti_message** message) {
  return result_of([&] {
    at(message, "message") = nullptr;
    *message = new tutti_message{
        of(group).probe(source, {.tag = tag, .timeout = group->settings.timeout}), group->settings};
  });
}

int tutti_try_probe(tutti_group* group, int source, int tag, tutti_message** message) {
  return result_of([&] {
    at(message, "message") = nullptr;
    if (auto found = of(group).try_probe(source, {.tag = tag}))
      *message = new tutti_message{std::move(*found), group->settings};
  });
}

int tutti_message_info(const tutti_message* message, int* source, int* tag, int* dtype,
                       size_t* count) {
  return result_of([&] {
    const tutti::Message& its = at(message, "the message").message;
    if (source != nullptr) *source = its.source();
    if (tag != nullptr) *tag = its.tag();
    if (dtype != nullptr) *dtype = static_cast<int>(its.dtype());
    if (count != nullptr) *count = its.count();
  });
}

int tutti_message_recv(tutti_message* message, void* buffer, size_t count, int dtype,
                       tutti_work** work) {
  return result_of([&] {
    if (work != nullptr) *work = nullptr;
    const Settings& settings = at(message, "the message").settings;
    run_on(settings, work, [&] {
      return message->message.irecv(view(settings, buffer, count, dtype), settings.timeout);
    });
  });
}

void tutti_message_free(tutti_message* message) { delete message; }
