// The imitation engine's server: SGLang's and vLLM's endpoints around an update, as far as docs/design/serving.md names them,
// and GET /imitation_state for whoever tests with it.
#pragma once

#include <functional>
#include <string>

#include "engine/scheduler.h"
#include "transport/http_message.h"

namespace xorbit::imitation {

// `state` makes the body of /imitation_state. Any thread.
HttpReply AnswerRequest(Scheduler& scheduler, bool is_vllm, const std::function<std::string()>& state,
                        const HttpRequest& request);

}  // namespace xorbit::imitation
