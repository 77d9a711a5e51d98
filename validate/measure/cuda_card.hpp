// The card at hand as its driver describes it.
#pragma once

#include <string>

#include "kernels/common/records.hpp"
#include "validate/board/nvml_board.hpp"

namespace plumbline {

/// "13.0" of CUDA's 13000.
std::string version_text(int version);
/// Throws DeviceError when there is no driver: asked before CUPTI is, whose message says less.
void need_driver();
/// This card of those that CUDA shows us, made current; its PCI bus id. Throws DeviceError when there is none.
std::string select_card(int number = 0);
/// Of the current card, without what only measuring tells.
Session card_session(const Board& board);

}  // namespace plumbline
