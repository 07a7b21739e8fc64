// What can be asked of a sampler on the disk (disk_sampler.h), by SGLang's names: what Miles and slime call around an update.
#pragma once

#include <span>

#include "server/disk_sampler.h"
#include "server/routes.h"

namespace xorbit {

using DiskRoute = RouteOf<DiskSampler>;

std::span<const DiskRoute> AllDiskRoutes();

// As the Dispatch of routes.h. Thread-safe.
HttpReply Dispatch(DiskSampler& sampler, const AccessRules& access, RateLimit& limit, const HttpRequest& request);

}  // namespace xorbit
