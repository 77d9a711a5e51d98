// Which of our GPU descriptors the card at hand is.
#pragma once

#include <cstdint>
#include <string>

#include "arch/units.hpp"

namespace plumbline {

/// What a driver says about a card.
struct CardIdentity {
  std::string name;                ///< "NVIDIA H200"
  std::string compute_capability;  ///< "9.0"
  std::int64_t sms = 0;
  Bytes memory;
};

/// The descriptor's short name ("h200_sxm"): same compute capability and SM count, its first word of title in the
/// card's name, memory within 8 % (drivers keep some; vendors round). Empty when none fits; the nearest memory when
/// several do.
std::string descriptor_of(const CardIdentity& card);

}  // namespace plumbline
