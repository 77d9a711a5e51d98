#include "ops/block/scope.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "arch/dtype.hpp"
#include "arch/error.hpp"
#include "arch/format.hpp"
#include "ops/block/lines.hpp"
#include "ops/rewrite/expression.hpp"

namespace plumbline {
namespace {

constexpr std::array<std::string_view, kStepNumbers> kStepNames{
    "T",     "B",     "S",       "C",     "X",      "hidden",  "tp",   "cp",     "page", "decode", "cache",
    "train", "eager", "typical", "fused", "scores", "dropout", "keys", "padded", "w",    "wi"};
constexpr std::array<std::string_view, 4> kFunctions{"ceil", "floor", "min", "max"};

bool is_name(std::string_view text) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  if (text.empty() || text.size() > 64 || !letter(text.front())) return false;
  return std::all_of(text.begin(), text.end(), [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

/// Works out the members of one object, each once, as far as others need it.
class Parameters {
 public:
  Parameters(const JsonValue& object, const Scope& given, Scope& to) : given_(given), to_(to) {
    for (const std::string& key : object.keys()) waiting_.emplace(key, State{object.find(key), false});
    object_ = &object;
  }
  void all() {
    for (const auto& [key, state] : waiting_) value_of(key, 0);
  }

 private:
  struct State {
    std::optional<JsonValue> value;
    bool begun;
  };

  void value_of(const std::string& key, std::size_t depth) {
    if (to_.has(key)) return;
    State& state = waiting_.at(key);
    const auto at = std::find(given_.names().begin(), given_.names().end(), key);
    if (at != given_.names().end()) {
      to_.add(key, given_.values()[static_cast<std::size_t>(at - given_.names().begin())], *object_);
      return;
    }
    if (!state.value) object_->fail("parameter '" + key + "' has no value of its own and must be given");
    if (state.begun || depth > 32) state.value->fail("expected parameters that do not need one another in a circle");
    state.begun = true;
    if (state.value->is_string()) first_what_it_needs(state.value->as_string(), depth);
    to_.add(key, to_.number(*state.value), *state.value);
  }

  void first_what_it_needs(const std::string& text, std::size_t depth) {
    for (const auto& [key, state] : waiting_) {
      if (block::names(text, key)) value_of(key, depth + 1);
    }
  }

  std::map<std::string, State> waiting_;
  const JsonValue* object_ = nullptr;
  const Scope& given_;
  Scope& to_;
};

}  // namespace

std::string_view name(StepNumber which) { return kStepNames.at(static_cast<std::size_t>(which)); }

void Scope::add(const std::string& name, double value, const JsonValue& at) {
  const auto taken = [&](const auto& words) { return std::find(words.begin(), words.end(), name) != words.end(); };
  const bool width = name == plumbline::name(StepNumber::hidden);  // a file's own is what the step's is
  if (!is_name(name) || (taken(kStepNames) && !width) || taken(kFunctions) || parse_dtype(name) || has(name)) {
    at.fail("'" + name.substr(0, 64) + "': expected a name of letters, digits and _ that shapes do not have yet");
  }
  if (names_.size() >= kMost) at.fail("expected at most " + std::to_string(kMost) + " parameters");
  if (!(std::abs(value) <= kLargest)) at.fail("parameter '" + name + "': expected a number within +-2^53");
  names_.push_back(name);
  values_.push_back(value);
}

bool Scope::has(std::string_view name) const { return std::find(names_.begin(), names_.end(), name) != names_.end(); }

double Scope::number(const JsonValue& value) const {
  if (value.is_boolean()) return value.as_bool() ? 1 : 0;
  if (!value.is_string()) return value.as_number();
  if (const auto type = parse_dtype(value.as_string())) return static_cast<double>(*type);
  double result = 0;
  try {
    result = Expression(value.as_string(), names_)(values_);
  } catch (const BadInput& bad) {
    value.fail(bad.what());
  }
  if (!(std::abs(result) <= kLargest)) value.fail("expected a number within +-2^53, found " + value.as_string());
  return result;
}

std::int64_t Scope::whole(const JsonValue& value, std::int64_t low, std::int64_t high) const {
  const double number = this->number(value);
  if (number != std::floor(number) || number < static_cast<double>(low) || number > static_cast<double>(high)) {
    value.fail("expected a whole number from " + std::to_string(low) + " to " + std::to_string(high) + ", found " +
               format_exact(number));
  }
  return static_cast<std::int64_t>(number);
}

bool Scope::flag(const JsonValue& value) const { return whole(value, 0, 1) == 1; }

void Scope::add_all(const JsonValue& parameters, const Scope& given) {
  if (!parameters.is_object()) parameters.fail("expected an object of names and numbers");
  if (parameters.size() > kMost) parameters.fail("expected at most " + std::to_string(kMost) + " parameters");
  Parameters(parameters, given, *this).all();
}

}  // namespace plumbline
