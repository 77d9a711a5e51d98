#include "validate/record/kernel_records.hpp"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "validate/statistics.hpp"

namespace plumbline {
namespace {

constexpr double kNanosecond = 1e-9;

std::int64_t product(const std::uint32_t (&d)[3]) { return std::int64_t{d[0]} * d[1] * d[2]; }

std::string counted(std::size_t n, const char* what) { return std::to_string(n) + " " + what; }

/// Why the records can't be used, or nothing. They are sorted by start.
std::string fault_of(const std::vector<KernelRecord>& records, const ExpectedRecords& expected) {
  std::size_t without_times = 0, backwards = 0;
  for (const KernelRecord& r : records) {
    if (r.start_ns == 0 || r.end_ns == 0) {
      ++without_times;
    } else if (r.end_ns <= r.start_ns) {
      ++backwards;
    }
  }
  if (without_times > 0) return counted(without_times, "kernel records without timestamps");
  if (backwards > 0) return counted(backwards, "kernel records that end before they start");
  if (expected.launches == 0) return "the operator launched no kernel";
  const std::size_t want = expected.executions * expected.launches;
  if (records.size() != want) {
    return "expected " + counted(want, "kernel records") + " (" + std::to_string(expected.executions) +
           " executions of " + std::to_string(expected.launches) + "), found " + std::to_string(records.size());
  }
  for (std::size_t i = expected.launches; i < records.size(); ++i) {
    // Executions are alike: a kernel elsewhere than in the first one means that they were cut wrongly.
    const KernelRecord& first = records[i % expected.launches];
    if (std::strcmp(records[i].name, first.name) == 0) continue;
    return "kernel record " + std::to_string(i) + " is " + kernel_name(records[i].name) + ", expected " +
           kernel_name(first.name);
  }
  return "";
}

MeasuredLaunch describe(const KernelRecord& r, double seconds) {
  MeasuredLaunch out;
  out.kernel = kernel_name(r.name);
  out.time = seconds * units::s;
  out.grid = product(r.grid);
  out.block = product(r.block);
  out.registers = r.registers;
  out.shared_memory_B = std::int64_t{r.static_shared_B} + r.dynamic_shared_B;
  out.cluster = std::max<std::int64_t>(1, product(r.cluster));
  return out;
}

void erase_all(std::string& text, std::string_view what) {
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at)) text.erase(at, what.size());
}

}  // namespace

ExecutionTimes execution_times(std::vector<KernelRecord> records, const ExpectedRecords& expected) {
  std::stable_sort(records.begin(), records.end(),
                   [](const KernelRecord& a, const KernelRecord& b) { return a.start_ns < b.start_ns; });
  ExecutionTimes out;
  out.fault = fault_of(records, expected);
  if (out.fault.empty() && expected.warm_up >= expected.executions) out.fault = "no execution counts";
  if (!out.fault.empty()) return out;
  std::vector<std::vector<double>> each(expected.launches);
  std::vector<double> periods;
  for (std::size_t i = expected.warm_up; i < expected.executions; ++i) {
    const std::size_t at = i * expected.launches;
    std::uint64_t end = 0;
    for (std::size_t j = 0; j < expected.launches; ++j) {
      const KernelRecord& r = records[at + j];
      end = std::max(end, r.end_ns);  // kernels of one execution may overlap
      each[j].push_back(static_cast<double>(r.end_ns - r.start_ns) * kNanosecond);
    }
    if (!out.starts_ns.empty()) {
      periods.push_back(static_cast<double>(records[at].start_ns - out.starts_ns.back()) * kNanosecond);
    }
    out.starts_ns.push_back(records[at].start_ns);
    out.seconds.push_back(static_cast<double>(end - records[at].start_ns) * kNanosecond);
  }
  for (std::size_t j = 0; j < expected.launches; ++j) {
    out.launches.push_back(describe(records[expected.warm_up * expected.launches + j], median(std::move(each[j]))));
  }
  if (!periods.empty()) out.period_seconds = median(std::move(periods));
  return out;
}

void keep_between(ExecutionTimes& times, std::uint64_t from_ns, std::uint64_t to_ns) {
  if (!times.fault.empty()) return;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < times.seconds.size(); ++i) {
    if (times.starts_ns[i] < from_ns || times.starts_ns[i] > to_ns) continue;
    times.seconds[kept] = times.seconds[i];
    times.starts_ns[kept++] = times.starts_ns[i];
  }
  times.seconds.resize(kept);
  times.starts_ns.resize(kept);
  if (kept == 0) times.fault = "no execution started within the timed window";
}

std::string kernel_name(std::string_view mangled) {
  int status = 0;
  const std::string text(mangled);
  const std::unique_ptr<char, void (*)(void*)> readable(abi::__cxa_demangle(text.c_str(), nullptr, nullptr, &status),
                                                        std::free);
  if (status != 0 || readable == nullptr) return text;  // a C name
  std::string out = readable.get();
  erase_all(out, "(anonymous namespace)::");
  erase_all(out, "plumbline::");
  // The arguments are the last pair of parentheses at the end; template arguments may have parentheses of their own.
  if (!out.empty() && out.back() == ')') {
    std::size_t depth = 0, at = out.size();
    do {
      --at;
      depth += out[at] == ')' ? 1U : 0U;
      depth -= out[at] == '(' ? 1U : 0U;
    } while (depth > 0 && at > 0);
    out.resize(at);
  }
  if (out.rfind("void ", 0) == 0) out.erase(0, 5);  // a template's return type is part of its name
  return out;
}

void set_times(const ExecutionTimes& times, Measurement& out) {
  out.fault = times.fault;
  if (!out.fault.empty()) return;
  out.time = median(times.seconds) * units::s;
  out.low = quantile(times.seconds, 0.1) * units::s;
  out.high = quantile(times.seconds, 0.9) * units::s;
  out.samples = static_cast<int>(times.seconds.size());
  out.launches = times.launches;
  out.kernel.clear();
  for (const MeasuredLaunch& launch : times.launches) out.kernel += (out.kernel.empty() ? "" : " + ") + launch.kernel;
}

}  // namespace plumbline
