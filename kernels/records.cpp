#include "kernels/records.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "arch/error.hpp"

namespace plumbline {
namespace {

std::string digits(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

/// Names and settings here hold no control characters.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

void write(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (!file) throw BadInput(path + ": expected a file that can be written");
}

std::string spread_json(const Spread& s) {
  return "\"value\": " + digits(s.median) + ", \"low\": " + digits(s.low) + ", \"high\": " + digits(s.high) +
         ", \"samples\": " + std::to_string(s.samples);
}

std::string scalar_json(const std::string& name, const Record& r) {
  return "    " + quoted(name) + ": {" + spread_json(r.value) + ", \"setting\": " + quoted(r.setting) + "}";
}

Record derived(double value, const std::string& how) { return {"", how, {value, value, value, 1}}; }

/// Mix loss as the model counts it: time = (read / b_r + write / b_w) (1 + 4 r (1 - r) loss), r the read share.
double mix_loss(double read, double write, double mixed, double share) {
  return (1.0 / (mixed * (share / read + (1.0 - share) / write)) - 1.0) / (4.0 * share * (1.0 - share));
}

using Scalars = std::vector<std::pair<std::string, Record>>;

void add_bandwidths(const std::vector<Record>& records, Scalars& out) {
  for (const char* name : {"dram_read_B_per_s", "dram_write_B_per_s", "dram_copy_B_per_s", "dram_copy_plain_B_per_s",
                           "dram_add_B_per_s", "l2_read_B_per_s", "loaded_bandwidth_B_per_s"}) {
    if (const Record* r = best(records, name, 1)) out.emplace_back(name, *r);
  }
  const Record *r = best(records, "dram_read_B_per_s", 1), *w = best(records, "dram_write_B_per_s", 1);
  const Record *c = best(records, "dram_copy_B_per_s", 1), *p = best(records, "dram_copy_plain_B_per_s", 1);
  const Record* a = best(records, "dram_add_B_per_s", 1);
  if (r == nullptr || w == nullptr || c == nullptr || p == nullptr || a == nullptr) return;
  const double read = r->value.median, write = w->value.median;
  const double copy = std::max(c->value.median, p->value.median);
  out.emplace_back("dram_mix_loss_fraction", derived(mix_loss(read, write, copy, 0.5), "best copy, 1:1"));
  out.emplace_back("dram_mix_loss_fraction_2_to_1",
                   derived(mix_loss(read, write, a->value.median, 2.0 / 3.0), "best add, 2:1"));
}

/// The scalars that a calibration needs, each from the record that stands for it.
Scalars scalars(const std::vector<Record>& records) {
  Scalars out;
  add_bandwidths(records, out);
  const auto take = [&](const char* as, const char* name, const std::string& setting) {
    for (const Record& r : records) {
      if (r.name == name && r.setting == setting) out.emplace_back(as, r);
    }
  };
  take("l2_latency_s", "latency_s", "footprint_MiB=8");
  take("l2_far_latency_s", "latency_s", "footprint_MiB=48");  // past half of L2: lines are no longer copied near
  take("dram_latency_s", "latency_s", "footprint_MiB=1024");
  // under load: where the streams first reach their best, not where they only queue longer
  if (const Record* r = best(records, "loaded_bandwidth_B_per_s", 1))
    take("dram_loaded_latency_s", "loaded_latency_s", r->setting);
  for (const char* name :
       {"gap_graph_s", "gap_stream_s", "gap_graph_pdl_s", "gap_stream_pdl_s", "host_per_launch_s", "graph_fixed_s"}) {
    take(name, name, "ctas=132;threads=256");
  }
  take("grid_barrier_s", "grid_barrier_s", "ctas_per_sm=1;threads=256");
  return out;
}

std::string machine_json(const Session& s, const std::vector<Record>& records) {
  std::ostringstream out;
  out << "{\n  \"schema\": 1,\n  \"gpu\": " << quoted(s.gpu) << ",\n  \"date\": " << quoted(s.date)
      << ",\n  \"driver\": " << quoted(s.driver) << ",\n  \"runtime\": " << quoted(s.runtime)
      << ",\n  \"sm_count\": " << s.sms << ",\n  \"l2_B\": " << digits(s.l2_bytes)
      << ",\n  \"memory_clock_MHz\": " << digits(s.memory_clock_MHz)
      << ",\n  \"power_limit_W\": " << digits(s.power_limit_W) << ",\n  \"elapsed_s\": " << digits(s.seconds)
      << ",\n  \"scalars\": {\n";
  const auto chosen = scalars(records);
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    out << scalar_json(chosen[i].first, chosen[i].second) << (i + 1 < chosen.size() ? ",\n" : "\n");
  }
  out << "  },\n  \"records\": [\n";
  for (std::size_t i = 0; i < records.size(); ++i) {
    out << "    {\"name\": " << quoted(records[i].name) << ", \"setting\": " << quoted(records[i].setting) << ", "
        << spread_json(records[i].value) << (i + 1 < records.size() ? "},\n" : "}\n");
  }
  out << "  ]\n}\n";
  return out.str();
}

std::string machine_csv(const std::vector<Record>& records) {
  std::string out = "name,setting,value,low,high,samples\n";
  for (const Record& r : records) {
    out += r.name + "," + r.setting + "," + digits(r.value.median) + "," + digits(r.value.low) + "," +
           digits(r.value.high) + "," + std::to_string(r.value.samples) + "\n";
  }
  return out;
}

std::string checks_csv(const std::vector<Check>& checks) {
  std::string out = "op,shape,error,allowed,fault\n";
  for (const Check& c : checks) {
    out += c.op + "," + c.shape + "," + digits(c.error) + "," + digits(c.allowed) + "," + c.fault + "\n";
  }
  return out;
}

}  // namespace

Spread spread(std::vector<double> samples) {
  if (samples.empty()) throw Error(ExitCode::our_bug, "spread of no samples");
  std::sort(samples.begin(), samples.end());
  const auto at = [&](double q) {
    return samples[static_cast<std::size_t>(std::lround(q * static_cast<double>(samples.size() - 1)))];
  };
  return {at(0.5), at(0.1), at(0.9), static_cast<int>(samples.size())};
}

const Record* best(const std::vector<Record>& records, const std::string& name, int sign) {
  const Record* found = nullptr;
  for (const Record& r : records) {
    if (r.name == name && (found == nullptr || sign * (r.value.median - found->value.median) > 0)) found = &r;
  }
  return found;
}

void write_results(const std::string& folder, const Session& session, const std::vector<Check>& checks,
                   const std::vector<Record>& records) {
  write(folder + "/machine.json", machine_json(session, records));
  write(folder + "/machine.csv", machine_csv(records));
  write(folder + "/checks.csv", checks_csv(checks));
}

}  // namespace plumbline
