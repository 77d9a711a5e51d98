// What readers of recordings share. Each refuses what cannot be, with its place.
#pragma once

#include <cstdint>

#include "arch/json_reader.hpp"
#include "validate/record/measurer.hpp"

namespace plumbline::recorded {

double positive(const JsonValue& value);
double not_negative(const JsonValue& value);
std::int64_t count(const JsonValue& value);
MeasuringSession read_session(const JsonValue& value);
/// The keys of Conditions among those of a case or a step.
Conditions read_conditions(const JsonValue& value);

}  // namespace plumbline::recorded
