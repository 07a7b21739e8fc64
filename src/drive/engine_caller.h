// A driver's steps as HTTP calls of one engine.
#pragma once

#include <string>

#include "drive/driven_update.h"
#include "transport/http_client.h"

namespace xorbit {

struct DrivenAddress {
  std::string url;  // as the user named it
  HttpEndpoint endpoint;
};

struct CallerOptions {
  std::string token;    // empty: none
  DrivenStream stream;  // what the engines must be of
};

// Makes the call that `order` is and waits for the reply, at most as long as the rules say. Any thread.
EngineReply CallEngine(const DrivenAddress& engine, const CallerOptions& options, const DriveRules& rules,
                       const DriveOrder& order, const std::string& sync_id);

}  // namespace xorbit
