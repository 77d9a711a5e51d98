#include "model/bands/step_bands.hpp"

#include <algorithm>
#include <utility>

#include "arch/json_reader.hpp"

namespace plumbline {
namespace {

constexpr std::string_view kApart = "apart";
constexpr long kEnoughForOthers = 10;  // steps that waited, for a stack that stands apart to say what hosts are off by

Band read_band(const JsonValue& v) {
  v.refuse_unknown_keys({"low", "middle", "high", "rows"});
  Band band;
  band.low = v.at("low").as_number();
  band.middle = v.at("middle").as_number();
  band.high = v.at("high").as_number();
  band.rows = static_cast<long>(v.at("rows").as_integer());
  if (band.low > band.middle || band.middle > band.high) v.fail("expected low <= middle <= high");
  return band;
}

}  // namespace

void StepBands::set(const std::string& stack, std::string_view kind, const Band& band) {
  bands_[{stack, std::string(kind)}] = band;
  make_hull(kind);
}

void StepBands::stand_apart(const std::string& stack) {
  apart_.insert(stack);
  for (const auto& [name, band] : bands_) {
    if (name.first == stack) make_hull(name.second);
  }
}

void StepBands::make_hull(std::string_view kind) {
  Hull hull;
  for (const auto& [name, each] : bands_) {
    if (name.second != kind) continue;
    if (stands_apart(name.first) && (kind != kWaitingSteps || each.rows < kEnoughForOthers)) continue;
    const bool first = hull.stacks.empty();
    hull.band.low = first ? each.low : std::min(hull.band.low, each.low);
    hull.band.high = first ? each.high : std::max(hull.band.high, each.high);
    hull.band.rows += each.rows;
    hull.stacks += (first ? "" : ", ") + name.first;
  }
  if (hull.stacks.empty()) hulls_.erase(std::string(kind));
  else hulls_[std::string(kind)] = std::move(hull);
}

WholeStepBand StepBands::find(std::string_view stack, std::string_view kind, bool as_recorded) const {
  const auto own = bands_.find({std::string(stack), std::string(kind)});
  const bool apart = stands_apart(std::string(stack)) &&
                     (kind == kWaitingSteps || kind == kMeasuredHostSteps);  // then no other stack's say more
  if (own != bands_.end() && (as_recorded || apart)) return {&own->second, own->first.first, own->first.second, true};
  const auto hull = hulls_.find(kind);
  if (hull == hulls_.end()) return {};
  return {&hull->second.band, hull->second.stacks, hull->first, false};
}

StepBands parse_step_bands(const std::string& json_text, const std::string& place) {
  const JsonDocument document = JsonDocument::parse(json_text, place);
  const JsonValue root = document.root();
  root.refuse_unknown_keys({"schema", "note", "stacks"});
  if (root.at("schema").as_string() != "plumbline.steps.bands.v1") {
    root.at("schema").fail("expected \"plumbline.steps.bands.v1\"");
  }
  StepBands bands;
  const JsonValue stacks = root.at("stacks");
  for (const std::string& stack : stacks.keys()) {
    const JsonValue kinds = stacks.at(stack);
    kinds.refuse_unknown_keys({kApart, kDenseSteps, kExpertSteps, kWaitingSteps, kMeasuredHostSteps});
    for (const std::string& kind : kinds.keys()) {
      if (kind != kApart) bands.set(stack, kind, read_band(kinds.at(kind)));
    }
    if (kinds.has(kApart) && kinds.at(kApart).as_bool()) bands.stand_apart(stack);
  }
  return bands;
}

}  // namespace plumbline
