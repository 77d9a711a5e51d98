#include "validate/record/measurement.hpp"

#include "arch/error.hpp"
#include "arch/files.hpp"

namespace plumbline {

std::optional<Watts> Measurement::power() const {
  if (published_power) return published_power;
  return clock_known && what.clock == ClockMode::steady ? conditions.power : std::nullopt;
}

ClockMode read_clock_mode(std::string_view text, const std::string& place) {
  if (text == "burst") return ClockMode::burst;
  if (text == "steady") return ClockMode::steady;
  throw BadInput(place + ": expected burst or steady, found '" + std::string(text) + "'" +
                 did_you_mean(text, {"burst", "steady"}));
}

std::string_view text_of(ClockMode clock) { return clock == ClockMode::burst ? "burst" : "steady"; }

std::string shared_card_text(const MeasuringSession& session) {
  return std::to_string(session.other_processes) +
         (session.other_processes == 1 ? " other process on the card" : " other processes on the card");
}

}  // namespace plumbline
