// What answers each route: functions from a request's fields to a reply over the session. delta_handlers.cc has the reference's
// eight endpoints, weight_handlers.cc what SGLang's and vLLM's clients ask.
#pragma once

#include "server/control_fields.h"
#include "server/sampler_session.h"
#include "transport/http_message.h"

namespace xorbit {

HttpReply HandleDeltaInfo(SamplerSession& session, const ControlFields& fields);
HttpReply HandlePrepareDelta(SamplerSession& session, const ControlFields& fields);
HttpReply HandleDeltaStatus(SamplerSession& session, const ControlFields& fields);
HttpReply HandleApplyDelta(SamplerSession& session, const ControlFields& fields);
HttpReply HandleResumeDelta(SamplerSession& session, const ControlFields& fields);
HttpReply HandleAbortDelta(SamplerSession& session, const ControlFields& fields);
HttpReply HandleUpdateFromDelta(SamplerSession& session, const ControlFields& fields);
HttpReply HandleClearDelta(SamplerSession& session, const ControlFields& fields);

HttpReply HandleMetrics(SamplerSession& session, const ControlFields& fields);
HttpReply HandleHealth(SamplerSession& session, const ControlFields& fields);
HttpReply HandleServerInfo(SamplerSession& session, const ControlFields& fields);
HttpReply HandleModelInfo(SamplerSession& session, const ControlFields& fields);
HttpReply HandleWeightVersion(SamplerSession& session, const ControlFields& fields);
HttpReply HandleWeightsChecker(SamplerSession& session, const ControlFields& fields);
HttpReply HandleIsPaused(SamplerSession& session, const ControlFields& fields);
HttpReply HandlePause(SamplerSession& session, const ControlFields& fields);
HttpReply HandleContinue(SamplerSession& session, const ControlFields& fields);
HttpReply HandleFlushCache(SamplerSession& session, const ControlFields& fields);
HttpReply HandleUpdateWeightVersion(SamplerSession& session, const ControlFields& fields);

}  // namespace xorbit
