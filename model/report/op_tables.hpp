// Tables of one operator that several writers show.
#pragma once

#include <vector>

#include "model/predict.hpp"
#include "model/report/columns.hpp"

namespace plumbline {

/// A row a launch: how it is cut, what an SM holds of it, and its time in parts.
Columns launch_columns(const OpPrediction& prediction);

/// A resource's own time in all launches, had it been alone.
struct ResourceTime {
  Resource resource;
  Seconds time;
};
/// Those that take any, in the order of Resource.
std::vector<ResourceTime> resource_times(const OpPrediction& prediction);

}  // namespace plumbline
