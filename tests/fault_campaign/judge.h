// What must be true of a store whatever happened to it, found out without the code under test where that is possible.
#pragma once

#include <string>
#include <vector>

#include "base/file.h"
#include "fault_campaign/board.h"
#include "fault_campaign/model.h"

namespace xorbit::fault_campaign {

// Versions whose decision somebody has seen, and which the store no longer has, or has otherwise; said one by one.
std::vector<std::string> LostDecisions(const Board& board, const fs::path& store);

// Committed versions that collectors had to keep, and that cannot be read with the bytes that their trainer published.
std::vector<std::string> UnreadableVersions(const Model& model, const fs::path& store);

}  // namespace xorbit::fault_campaign
