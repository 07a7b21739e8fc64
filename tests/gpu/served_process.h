// A running `xorbit serve`, as a driver sees it: started with its arguments, asked over loopback.
#pragma once

#include <sys/types.h>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "transport/http_client.h"

namespace xorbit {

// Killed with the object. One thread at a time.
class ServedProcess {
 public:
  // Returns once it listens. `arguments` are those after `serve`; weights lie on a device.
  static Result<std::unique_ptr<ServedProcess>> Start(const std::string& xorbit, std::vector<std::string> arguments);
  ServedProcess() = default;
  ServedProcess(const ServedProcess&) = delete;
  ServedProcess& operator=(const ServedProcess&) = delete;
  ~ServedProcess();

  // The reply's body. kRefused, with the body, for any status but `status`.
  Result<nlohmann::json> Post(const std::string& path, const nlohmann::json& body, int status = 200) const;
  // Of all pauses until now, by phase, in milliseconds: what /metrics says.
  Result<std::map<std::string, double>> PhaseMs() const;

 private:
  pid_t pid_ = 0;
  HttpEndpoint endpoint_;
};

}  // namespace xorbit
