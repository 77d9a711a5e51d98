#include "validate/compare/report_repeat.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <tuple>

#include "ops/table/text.hpp"
#include "validate/record/measurement.hpp"
#include "validate/record/study.hpp"
#include "validate/records.hpp"
#include "validate/statistics.hpp"

namespace plumbline {

namespace {

using CaseOfSet = std::pair<KernelSet, std::string>;

std::map<CaseOfSet, Seconds> times_of(const Recording& recording) {
  std::map<CaseOfSet, Seconds> times;
  for (const Measurement& c : recording.cases) {
    if (c.fault.empty()) times[{c.kernels, case_key(c.what)}] = c.time;
  }
  return times;
}

}  // namespace

std::vector<RepeatClass> compare_runs(const Recording& first, const Recording& second) {
  using ClassKey = std::tuple<KernelSet, std::string, std::string, std::string, SizeClass>;
  struct Pair {
    double ln;
    std::string shape;
  };
  const auto other = times_of(second);
  std::map<ClassKey, std::vector<Pair>> classes;
  for (const Measurement& c : first.cases) {
    const auto again = other.find({c.kernels, case_key(c.what)});
    if (!c.fault.empty() || again == other.end()) continue;
    const std::string mode = std::string(name(c.what.cache)) + " " + std::string(text_of(c.what.clock));
    const ClassKey key{c.kernels, std::string(op_name(c.what.op)), std::string(dtype_text(c.what.op)), mode,
                       size_class(c.time)};
    classes[key].push_back({std::log(again->second / c.time), c.what.shape});
  }
  std::vector<RepeatClass> out;
  for (const auto& [key, pairs] : classes) {
    RepeatClass& r = out.emplace_back();
    std::tie(r.kernels, r.op, r.dtype, r.mode, r.size) = key;
    r.count = static_cast<long>(pairs.size());
    std::vector<double> ln, absolute;
    for (const Pair& pair : pairs) {
      ln.push_back(pair.ln);
      absolute.push_back(std::abs(pair.ln));
      if (r.worst_shape.empty() || std::abs(pair.ln) > std::abs(r.worst_ln)) {
        r.worst_ln = pair.ln;
        r.worst_shape = pair.shape;
      }
    }
    r.median_ln = median(ln);
    r.median_abs_ln = median(absolute);
  }
  return out;
}

std::string repeat_table(const std::vector<RepeatClass>& classes, double limit) {
  std::string text;
  char line[512];
  const auto add = [&](const char* kernels, const std::string& op, const std::string& dtype, const std::string& mode,
                       const char* size, const char* rows, const char* moved, const char* apart, const char* worst,
                       const std::string& at) {
    std::snprintf(line, sizeof line, "%-8s %-36s %-6s %-12s %-9s %5s %9s %9s %8s  %s\n", kernels, op.c_str(),
                  dtype.c_str(), mode.c_str(), size, rows, moved, apart, worst, at.c_str());
    text += line;
  };
  add("kernels", "op", "dtype", "mode", "measured", "cases", "moved%", "apart%", "worst%", "at");
  long within = 0;
  for (const RepeatClass& r : classes) {
    char moved[32], apart[32], worst[32];
    std::snprintf(moved, sizeof moved, "%+.2f", 100 * r.median_ln);
    std::snprintf(apart, sizeof apart, "%.2f", 100 * r.median_abs_ln);
    std::snprintf(worst, sizeof worst, "%+.1f", 100 * r.worst_ln);
    add(std::string(key_of(r.kernels)).c_str(), r.op, r.dtype, r.mode, std::string(name(r.size)).c_str(),
        std::to_string(r.count).c_str(), moved, apart, worst, r.worst_shape);
    if (std::abs(r.median_ln) <= limit) ++within;
  }
  std::snprintf(line, sizeof line, "%ld of %zu classes moved by at most %.1f %% in the median\n", within,
                classes.size(), 100 * limit);
  return text + line;
}

namespace {

std::vector<FieldRecord> records_of(const std::vector<RepeatClass>& classes) {
  std::vector<FieldRecord> records;
  for (const RepeatClass& r : classes) {
    records.push_back({{"op", r.op},
                       {"dtype", r.dtype},
                       {"mode", r.mode},
                       {"size", std::string(name(r.size))},
                       {"kernels", std::string(key_of(r.kernels))},
                       {"count", r.count},
                       {"median_ln", r.median_ln},
                       {"median_abs_ln", r.median_abs_ln},
                       {"worst_ln", r.worst_ln},
                       {"worst_shape", r.worst_shape}});
  }
  return records;
}

}  // namespace

std::string repeat_csv(const std::vector<RepeatClass>& classes) { return records_csv(records_of(classes)); }

std::string repeat_json(const std::vector<RepeatClass>& classes) {
  return records_json("plumbline.validate.repeat.v1", "classes", records_of(classes));
}

}  // namespace plumbline
