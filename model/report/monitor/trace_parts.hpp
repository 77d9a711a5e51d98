// What the traces of steps and of pipelines that train share.
#pragma once

#include <string>
#include <string_view>

#include "model/report/json_parts.hpp"
#include "model/report/report.hpp"

namespace plumbline {

/// Edges in whole nanoseconds: viewers count in them, and slices that share an edge must share it to the digit to nest.
Json slice(std::string name, std::string_view category, Seconds start, Seconds end, int stream, int process = 0);
Json name_of_row(const char* what, int process, int stream, const std::string& text);

/// Stages of a pipeline that trains, a process each: turns of their micro-batches as the schedule lays them out, what they hand
/// on, and what each does once an iteration behind them.
///
/// Stages run at one clock here, the slowest's: all times are stretched by latency / (laid out + once an iteration). That is 1
/// but where a clock settled under a cap, or where of many micro-batches only some were laid out for the prediction
/// (model/schedule/training.hpp). What tensor, expert and replica ranks exchange within a pass is a part of it; of ranks that hold
/// two stages so is what they hand on.
void add_training_stages(const StepReport& r, Json& events);

}  // namespace plumbline
