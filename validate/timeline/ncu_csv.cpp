// Nsight Compute's `ncu --csv`, of either page: "raw" has a line a launch and a column a metric with its unit in the line
// under the names, "details" a line a metric. https://docs.nvidia.com/nsight-compute/NsightComputeCli (Page and Print
// Options); lines of the program and of ncu itself ("==PROF==") stand before.
#include <array>
#include <charconv>
#include <map>

#include "arch/error.hpp"
#include "arch/printable.hpp"
#include "ops/csv.hpp"
#include "validate/timeline/timeline.hpp"

namespace plumbline {
namespace {

/// "1,234.5": ncu groups digits.
std::optional<double> figure(std::string_view text) {
  std::string digits;
  for (const char c : text) {
    if (c != ',') digits += c;
  }
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

/// Units as ncu spells them, old and new; 0: none of these.
template <std::size_t N>
double unit_of(std::string_view text, const std::array<std::pair<std::string_view, double>, N>& known) {
  for (const auto& [word, factor] : known) {
    if (word == text) return factor;
  }
  return 0;
}

constexpr std::array<std::pair<std::string_view, double>, 10> kTimes{{{"ns", 1e-9},
                                                                      {"nsecond", 1e-9},
                                                                      {"us", 1e-6},
                                                                      {"usecond", 1e-6},
                                                                      {"ms", 1e-3},
                                                                      {"msecond", 1e-3},
                                                                      {"s", 1},
                                                                      {"second", 1},
                                                                      {"nanosecond", 1e-9},
                                                                      {"microsecond", 1e-6}}};
constexpr std::array<std::pair<std::string_view, double>, 6> kSizes{
    {{"byte", 1}, {"Kbyte", 1e3}, {"Mbyte", 1e6}, {"Gbyte", 1e9}, {"B", 1}, {"Tbyte", 1e12}}};

/// "(16, 1, 1)"; raw pages of older releases write "16x1x1".
std::int64_t threads_of(std::string_view text) {
  std::int64_t product = 1, number = 0;
  bool in_number = false, any = false;
  for (const char c : std::string(text) + ' ') {
    if (c >= '0' && c <= '9') {
      number = number * 10 + (c - '0');
      in_number = any = true;
    } else if (in_number) {
      product *= number;
      number = 0;
      in_number = false;
    }
  }
  return any ? product : 0;
}

/// What of a launch is in the file, by its ID.
struct Launch {
  TimelineKernel kernel;
  bool timed = false;
};

void take_metric(Launch& launch, std::string_view metric, std::string_view unit, std::string_view text) {
  const auto value = figure(text);
  if (!value) return;
  if (metric == "gpu__time_duration.sum" || metric == "Duration") {
    const double factor = unit_of(unit, kTimes);
    if (factor <= 0)
      throw BadInput(std::string(metric) + ": expected ns, us, ms or s, found '" + std::string(unit) + "'");
    launch.kernel.duration = *value * factor * units::s;
    launch.timed = true;
  }
  if (metric == "dram__bytes.sum" || metric == "dram__bytes_read.sum" || metric == "dram__bytes_write.sum") {
    launch.kernel.dram = launch.kernel.dram.value_or(Bytes{}) + *value * unit_of(unit, kSizes) * units::B;
  }
}

class Page {
 public:
  Page(CsvReader& reader, const CsvHeader& header)
      : reader_(reader),
        header_(header),
        id_(header.require("ID")),
        kernel_(header.require("Kernel Name")),
        metric_(header.find("Metric Name")) {
    if (metric_) {
      unit_ = header.require("Metric Unit");
      value_ = header.require("Metric Value");
    }
  }

  std::map<std::int64_t, Launch> read() {
    while (reader_.next()) {
      const auto fields = reader_.fields();
      if (fields.size() <= std::max(id_, kernel_)) continue;
      if (fields[id_].empty() && !metric_) units_.assign(fields.begin(), fields.end());
      const auto id = figure(fields[id_]);
      if (!id) continue;
      Launch& launch = launches_[static_cast<std::int64_t>(*id)];
      about(launch.kernel, fields);
      if (metric_) take_metric(launch, fields[*metric_], fields[unit_], fields[value_]);
      else all_metrics(launch, fields);
    }
    return std::move(launches_);
  }

 private:
  std::string_view field(std::span<const std::string_view> fields, std::string_view name) const {
    const auto at = header_.find(name);
    return at && *at < fields.size() ? fields[*at] : std::string_view();
  }

  void about(TimelineKernel& kernel, std::span<const std::string_view> fields) const {
    kernel.kernel = printable(fields[kernel_]);
    kernel.ctas = threads_of(field(fields, "Grid Size"));
    kernel.threads = threads_of(field(fields, "Block Size"));
    kernel.stream = static_cast<std::int64_t>(figure(field(fields, "Stream")).value_or(0));
    kernel.device = static_cast<std::int64_t>(figure(field(fields, "Device")).value_or(0));
  }

  void all_metrics(Launch& launch, std::span<const std::string_view> fields) const {
    for (std::size_t i = 0; i < std::min(fields.size(), header_.size()); ++i) {
      take_metric(launch, header_.names()[i], i < units_.size() ? std::string_view(units_[i]) : "", fields[i]);
    }
  }

  CsvReader& reader_;
  const CsvHeader& header_;
  std::size_t id_, kernel_, unit_ = 0, value_ = 0;
  std::optional<std::size_t> metric_;
  std::vector<std::string> units_;
  std::map<std::int64_t, Launch> launches_;
};

/// From the line of names on, which is the first with "Kernel Name".
std::string_view table_of(std::string_view text, const std::string& file) {
  const std::size_t found = text.find("\"Kernel Name\"");
  if (found == std::string_view::npos) throw BadInput(file + ": expected a column \"Kernel Name\", found none");
  const std::size_t line = text.rfind('\n', found);
  return text.substr(line == std::string_view::npos ? 0 : line + 1);
}

}  // namespace

Timeline read_ncu_csv(const std::string& text, const std::string& file) {
  CsvReader reader(table_of(text, file), file);
  const CsvHeader header(reader);
  Timeline out;
  out.source = TimelineSource::ncu;
  out.file = file;
  Seconds now;
  for (auto& [id, launch] : Page(reader, header).read()) {
    if (!launch.timed) {
      throw BadInput(file + ": launch " + std::to_string(id) +
                     ": expected gpu__time_duration.sum or Duration (ncu --section SpeedOfLight), found neither");
    }
    launch.kernel.start = now;
    now += launch.kernel.duration;
    out.kernels.push_back(std::move(launch.kernel));
  }
  return out;
}

}  // namespace plumbline
