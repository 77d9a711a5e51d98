// The machine scalars: each from its records, with where it came from.
#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>

#include "arch/format.hpp"
#include "arch/gpu/peaks.hpp"
#include "validate/fit/calibrate.hpp"
#include "validate/fit/power_search.hpp"
#include "validate/statistics.hpp"

namespace plumbline {
namespace {

using Found = std::vector<const Record*>;

std::string text_of(double value, const char* shape = "%.4g") {
  char text[200];
  std::snprintf(text, sizeof text, shape, value);
  return text;
}

std::string rate_text(double bytes_per_s) { return text_of(bytes_per_s * 1e-12, "%.3f TB/s"); }

double half_spread(const Record& r) {
  return r.value.median > 0 ? (r.value.high - r.value.low) / (2 * r.value.median) : 0;
}

class MachineFit {
 public:
  MachineFit(const Gpu& gpu, const ProbeRun& run) : gpu_(gpu), run_(run), where_("probe, " + run.session.date + ": ") {}

  Scalars fit() {
    dram();
    dram_latencies();
    l2_bandwidth();
    l2_latencies();
    launches();
    host_link();
    tensor();
    shared_memory();
    lanes();
    epilogue();
    return std::move(out_);
  }

 private:
  /// `residual`: relative misfit, of one record the half width of its 10-90 % range.
  void put(const std::string& name, double value, const std::string& how, double residual, std::size_t rows) {
    out_[name] = Scalar{value, where_ + how, residual, static_cast<long>(rows)};
  }
  /// A share of a descriptor's number. Above 1 the descriptor is too low; a share cannot say that.
  void put_fraction(const std::string& name, double value, const std::string& how, double residual, std::size_t rows) {
    const bool over = value > 1;
    put(name, std::min(1.0, value), how + (over ? ", above what the descriptor says; held at 1" : ""), residual, rows);
  }
  const Record* one(std::string_view name, const std::string& setting) const {
    const Found found = records_of(run_, name, [&](const Record& r) { return r.setting == setting; });
    return found.empty() ? nullptr : found.front();
  }
  void take(const char* as, const Record* r, const std::string& how) {
    if (r != nullptr) put(as, r->value.median, how, half_spread(*r), 1);
  }

  void dram();
  void dram_ramp(double best_read);
  void dram_latencies();
  void l2_bandwidth();
  void l2_latencies();
  void launches();
  void host_link();
  void tensor();
  void tensor_operands();
  void shared_memory();
  void lanes();
  void epilogue();

  const Gpu& gpu_;
  const ProbeRun& run_;
  const std::string where_;
  Scalars out_;
};

/// Writes leave in batches, each with a turn of the bus: time = (read / b_r + write / b_w) (1 + 2 w loss), w the write
/// share, up to an even mix. What a mix takes beyond the sum, and its 2 w.
struct Turnaround {
  double excess = 0, twice_writes = 0;
};
Turnaround turnaround(double read, double write, double mixed, double writes) {
  return {1.0 / (mixed * ((1.0 - writes) / read + writes / write)) - 1.0, 2 * writes};
}

void MachineFit::dram() {
  const double nominal = gpu_.memory.data_bandwidth().in(units::B_per_s);
  const Record* read = best_of(records_of(run_, "dram_read_B_per_s"));
  const Record* write = best_of(records_of(run_, "dram_write_B_per_s"));
  if (read == nullptr || write == nullptr) return;
  const double r = read->value.median, w = write->value.median;
  put_fraction("dram_read_fraction", r / nominal,
               rate_text(r) + " of " + rate_text(nominal) + " read, the best of the sweep (" + read->setting + ")",
               half_spread(*read), 1);
  put_fraction("dram_write_fraction", w / nominal,
               rate_text(w) + " of " + rate_text(nominal) + " written, the best of the sweep (" + write->setting + ")",
               half_spread(*write), 1);
  dram_ramp(r);
  Found copies = records_of(run_, "dram_copy_B_per_s");
  const Found plain = records_of(run_, "dram_copy_plain_B_per_s");
  copies.insert(copies.end(), plain.begin(), plain.end());
  const Record *copy = best_of(copies), *add = best_of(records_of(run_, "dram_add_B_per_s"));
  if (copy == nullptr) return;
  std::vector<Turnaround> mixes{turnaround(r, w, copy->value.median, 0.5)};
  std::string how = "best copy " + rate_text(copy->value.median);
  if (add != nullptr) {
    mixes.push_back(turnaround(r, w, add->value.median, 1.0 / 3));
    how += " and best of two reads a write " + rate_text(add->value.median);
  }
  std::vector<double> a, b, errors;
  for (const Turnaround& m : mixes) {
    a.push_back(m.twice_writes);
    b.push_back(m.excess);
  }
  const double loss = std::min(1.0, non_negative_least_squares(a, b)[0]);
  for (const Turnaround& m : mixes) errors.push_back((1 + m.twice_writes * loss) / (1 + m.excess) - 1);
  put("dram_mix_loss_fraction", loss, how + ", least squares of a loss in proportion to writes", rms(errors),
      mixes.size());
}

/// Reads against bytes in flight: BW = best (1 - exp(-bytes / (best x latency))) (docs/sources.md: streams).
void MachineFit::dram_ramp(double best_read) {
  const Found sweep = records_of(run_, "dram_read_B_per_s",
                                 [](const Record& r) { return number_of(r, "in_flight_B_per_sm").has_value(); });
  if (sweep.size() < 4) return;
  const auto errors = [&](double latency) {
    std::vector<double> e;
    for (const Record* r : sweep) {
      const double bytes = *number_of(*r, "in_flight_B_per_sm") * run_.session.sms;
      e.push_back(best_read * (1 - std::exp(-bytes / (best_read * latency))) / r->value.median - 1);
    }
    return e;
  };
  constexpr double kStart = 5e-7;
  const std::vector<double> at =
      simplex_search([&](const std::vector<double>& x) { return rms(errors(kStart * std::exp(x[0]))); }, {0}, 0.2, 80);
  const double latency = kStart * std::exp(at[0]);
  put("dram_ramp_latency_s", latency, "reads against bytes in flight, 1 - exp(-x)", rms(errors(latency)), sweep.size());
}

void MachineFit::dram_latencies() {
  const Found unloaded = records_of(run_, "latency_s", [&](const Record& r) {
    return number_of(r, "footprint_MiB").value_or(0) * 1048576 >= 10 * run_.session.l2_bytes;
  });
  if (!unloaded.empty()) take("dram_latency_s", unloaded.front(), "dependent loads, " + unloaded.front()->setting);
  // Under load: where the streams first come within 2 % of their best; beyond it they only queue longer.
  const Record* best = best_of(records_of(run_, "loaded_bandwidth_B_per_s"));
  if (best == nullptr) return;
  for (const Record* streams : records_of(run_, "loaded_bandwidth_B_per_s")) {
    if (streams->value.median < 0.98 * best->value.median) continue;
    const Record* loaded = one("loaded_latency_s", streams->setting);
    if (loaded == nullptr) return;
    const double nominal = gpu_.memory.latency.in(units::s);
    put("dram_loaded_latency_ratio", loaded->value.median / nominal,
        text_of(1e9 * loaded->value.median, "%.0f ns at ") + rate_text(streams->value.median) + " against " +
            text_of(1e9 * nominal, "%.0f ns") + " of the descriptor (" + streams->setting + ")",
        half_spread(*loaded), 1);
    return;
  }
}

/// Footprints that fit L2 with room to spare show its bandwidth. Beyond it a share min(1, usable / footprint) of the
/// reads still hits and the rest comes at DRAM's rate: least squares of that over footprints of 0.8 to 1.3 times L2.
void MachineFit::l2_bandwidth() {
  const Found sweep =
      records_of(run_, "l2_read_B_per_s", [](const Record& r) { return number_of(r, "shift").value_or(0) > 0; });
  const auto bytes_of = [](const Record* r) { return 1e6 * number_of(*r, "footprint_MB").value_or(0); };
  std::vector<double> plateau;
  Found edge;
  for (const Record* r : sweep) {
    const double share = bytes_of(r) / run_.session.l2_bytes;
    if (share > 0.2 && share < 0.75) plateau.push_back(r->value.median);
    if (share > 0.8 && share < 1.3) edge.push_back(r);
  }
  if (plateau.size() < 3) return;
  const double level = median(plateau);
  std::vector<double> errors;
  for (const double v : plateau) errors.push_back(v / level - 1);
  const double peak = l2_peak(gpu_, gpu_.boost_clock).in(units::B_per_s);
  put_fraction("l2_bandwidth_fraction", level / peak,
               rate_text(level) + " of " + rate_text(peak) + ", footprints of 20 to 75 % of L2", rms(errors),
               plateau.size());
  const Record* dram = best_of(records_of(run_, "dram_read_B_per_s"));
  if (dram == nullptr || edge.size() < 3) return;
  const auto misfits = [&](double usable) {
    std::vector<double> e;
    for (const Record* r : edge) {
      const double hits = std::min(1.0, usable / bytes_of(r));
      e.push_back(1 / (r->value.median * (hits / level + (1 - hits) / dram->value.median)) - 1);
    }
    return e;
  };
  const double size = run_.session.l2_bytes;
  const std::vector<double> at =
      simplex_search([&](const std::vector<double>& x) { return rms(misfits(size * x[0])); }, {0.9}, 0.05, 80);
  put_fraction("l2_usable_fraction", size * at[0] / gpu_.l2.size.in(units::B),
               text_of(size * at[0] * 1e-6, "hits as of %.1f MB of ") +
                   text_of(gpu_.l2.size.in(units::B)*1e-6, "%.1f MB, footprints of 0.8 to 1.3 times L2"),
               rms(misfits(size * at[0])), edge.size());
}

/// Two steps where L2 has two halves: lines of the far one are copied near as long as they fit.
void MachineFit::l2_latencies() {
  const double l2 = run_.session.l2_bytes;
  const auto share_of = [&](const Record& r) { return number_of(r, "footprint_MiB").value_or(0) * 1048576 / l2; };
  const Found near = records_of(run_, "latency_s", [&](const Record& r) { return share_of(r) < 0.42; });
  const Found far =
      records_of(run_, "latency_s", [&](const Record& r) { return share_of(r) > 0.6 && share_of(r) < 0.85; });
  const auto level = [](const Found& found) {
    std::vector<double> v;
    for (const Record* r : found) v.push_back(r->value.median);
    return median(v);
  };
  const auto misfit = [](const Found& found, double at) {
    std::vector<double> e;
    for (const Record* r : found) e.push_back(r->value.median / at - 1);
    return rms(e);
  };
  if (near.empty()) return;
  const double low = level(near);
  put("l2_latency_s", low, "dependent loads, footprints below 42 % of L2", misfit(near, low), near.size());
  if (far.empty() || level(far) < 1.2 * low) return;
  const double high = level(far), middle = 0.5 * (low + high);
  put("l2_far_latency_s", high, "dependent loads, footprints of 60 to 85 % of L2", misfit(far, high), far.size());
  const Record* before = near.back();
  for (const Record* r : records_of(run_, "latency_s")) {
    if (share_of(*r) <= share_of(*before)) continue;
    if (r->value.median < middle) {
      before = r;
      continue;
    }
    const double a = before->value.median, b = r->value.median;
    const double at = share_of(*before) + (share_of(*r) - share_of(*before)) * (middle - a) / (b - a);
    put_fraction("l2_near_fraction", at, "latency half-way from near to far at this share of L2",
                 (share_of(*r) - share_of(*before)) / (2 * at), 2);
    return;
  }
}

void MachineFit::launches() {
  const std::string wide = "ctas=" + std::to_string(run_.session.sms) + ";threads=256";
  take("gap_graph_s", one("gap_graph_s", wide), "empty kernel to empty kernel in a graph, a CTA an SM");
  take("gap_stream_s", one("gap_stream_s", wide), "empty kernel to empty kernel in a stream, a CTA an SM");
  take("gap_graph_pdl_s", one("gap_graph_pdl_s", wide), "the same in a graph with programmatic dependent launches");
  take("gap_stream_pdl_s", one("gap_stream_pdl_s", wide), "the same in a stream with programmatic dependent launches");
  take("graph_fixed_s", one("graph_fixed_s", wide), "launch of a graph beside its nodes");
  take("host_per_launch_s", one("host_per_launch_s", wide), "host time of one launch into a full queue");
  take("grid_barrier_s", one("grid_barrier_s", "ctas_per_sm=1;threads=256"),
       "all CTAs arrive at a counter and poll it");
  const Found flag = records_of(run_, "flag_latency_s");
  if (!flag.empty())
    take("flag_latency_s", flag.front(), "store of a flag until another SM has seen it, half a round trip");
}

void MachineFit::host_link() {
  const double nominal = gpu_.links.pcie_per_direction.in(units::B_per_s);
  const Record* down = best_of(records_of(run_, "host_to_device_B_per_s"));
  const Record* up = best_of(records_of(run_, "device_to_host_B_per_s"));
  if (down == nullptr || up == nullptr || nominal <= 0) return;
  const double a = down->value.median, b = up->value.median, middle = 0.5 * (a + b);
  put_fraction("pcie_fraction", middle / nominal,
               text_of(a * 1e-9, "%.1f") + " GB/s to the device, " + text_of(b * 1e-9, "%.1f") + " back, of " +
                   text_of(nominal * 1e-9, "%.1f") + ", pinned memory",
               std::abs(a - b) / (2 * middle), 2);
}

void MachineFit::tensor() {
  const auto best_kind = [&](const char* kind, DType type, const char* name) {
    const double peak = gpu_.sm.tensor_flop_per_clk[type];
    const Record* best = best_of(records_of(run_, "tensor_FLOP_per_clk", [&](const Record& r) {
      return setting_of(r, "instruction") == "wgmma" && setting_of(r, "kind") == kind && setting_of(r, "n") == "256" &&
             setting_of(r, "warpgroups") == "2" && setting_of(r, "fill").empty();
    }));
    if (best == nullptr || peak <= 0) return;
    put_fraction(name, best->value.median / peak,
                 text_of(best->value.median, "%.0f of ") + text_of(peak, "%.0f FLOP/clk/SM") + ", wgmma 64 x 256",
                 half_spread(*best), 1);
  };
  best_kind("bf16", DType::bf16, "tensor_bf16_fraction");
  best_kind("fp8", DType::fp8, "tensor_fp8_fraction");
  best_kind("int8", DType::int8, "tensor_int8_fraction");
  tensor_operands();
}

/// wgmma 64 x N x 32 bytes waits for its operands where it is narrow: floor + N x slope clk with A from shared memory,
/// a floor alone with A from registers; N / 2 clk where the tensor unit is the limit (docs/sources.md: matrix products).
void MachineFit::tensor_operands() {
  const auto clk_of = [](const Record& r) {
    const double k = setting_of(r, "kind").substr(0, 4) == "bf16" ? 16 : 32;
    return 2 * 64 * number_of(r, "n").value_or(0) * k / r.value.median;
  };
  const auto narrow = [](const Record& r, double most) {
    return setting_of(r, "instruction") == "wgmma" && setting_of(r, "warpgroups") == "2" &&
           setting_of(r, "fill").empty() && number_of(r, "n").value_or(1e9) <= most;
  };
  const auto from_registers = [](const Record& r) { return setting_of(r, "kind") == "bf16_a_from_registers"; };
  const Found shared =
      records_of(run_, "tensor_FLOP_per_clk", [&](const Record& r) { return narrow(r, 32) && !from_registers(r); });
  if (shared.size() >= 3) {
    std::vector<double> a(shared.size(), 1), b;
    for (const Record* r : shared) {
      a.push_back(*number_of(*r, "n"));
      b.push_back(clk_of(*r));
    }
    const std::vector<double> x = non_negative_least_squares(a, b);
    std::vector<double> errors;
    for (std::size_t i = 0; i < b.size(); ++i) errors.push_back((x[0] + x[1] * a[b.size() + i]) / b[i] - 1);
    const std::string how = "wgmma 64 x N x 32 B, N = 8 to 32, both operands from shared memory: floor + N x slope clk";
    put("wgmma_shared_floor_clk", x[0], how, rms(errors), b.size());
    put("wgmma_shared_clk_per_column", x[1], how, rms(errors), b.size());
  }
  const Found registers =
      records_of(run_, "tensor_FLOP_per_clk", [&](const Record& r) { return narrow(r, 16) && from_registers(r); });
  if (registers.size() < 2) return;
  std::vector<double> clk, errors;
  for (const Record* r : registers) clk.push_back(clk_of(*r));
  for (const double c : clk) errors.push_back(c / mean(clk) - 1);
  put("wgmma_register_floor_clk", mean(clk), "the same with A from registers, N = 8 and 16", rms(errors), clk.size());
}

/// What fills by bulk copies take from the port: bytes that reads lose for each byte filled, by least squares.
void MachineFit::shared_memory() {
  const double port = gpu_.sm.smem_bytes_per_clk.in(units::B);
  const auto alone = [](const Record& r) { return setting_of(r, "fill").empty(); };
  const Record* best = best_of(records_of(run_, "smem_read_B_per_clk", alone));
  if (best == nullptr || port <= 0) return;
  put_fraction("smem_read_fraction", best->value.median / port,
               text_of(best->value.median, "%.1f of ") + text_of(port, "%.0f B/clk/SM") + " (" + best->setting + ")",
               half_spread(*best), 1);
  std::vector<double> a, b;
  for (const Record* r : records_of(run_, "smem_read_B_per_clk", [&](const Record& r) { return !alone(r); })) {
    std::string setting = r->setting.substr(0, r->setting.find(";fill"));
    const Record* fill = one("smem_fill_B_per_clk", "beside:" + setting);
    setting = setting.substr(0, setting.find(";sms")) + ";sms=" + std::to_string(run_.session.sms);
    const Record* without = one("smem_read_B_per_clk", setting);
    if (fill == nullptr || without == nullptr) continue;
    a.push_back(fill->value.median);
    b.push_back(std::max(0.0, without->value.median - r->value.median));
  }
  if (a.size() >= 2) {
    const double share = non_negative_least_squares(a, b)[0];
    std::vector<double> errors;  // of the reads, not of what they lose
    for (std::size_t i = 0; i < a.size(); ++i) errors.push_back((share * a[i] - b[i]) / best->value.median);
    put("tma_port_ratio", share, "bytes that reads of shared memory lose for each byte that bulk copies fill",
        rms(errors), a.size());
  }
  const Record* fill = best_of(records_of(
      run_, "smem_fill_B_per_clk", [](const Record& r) { return setting_of(r, "sms") == "1" && r.setting[0] != 'b'; }));
  if (fill != nullptr) take("tma_fill_B_per_clk", fill, "one SM alone from L2, " + fill->setting);
}

void MachineFit::lanes() {
  const auto rate = [&](const char* name, const char* record, double peak, const char* what) {
    const Record* r = best_of(records_of(run_, record));
    if (r == nullptr || peak <= 0) return;
    put_fraction(name, r->value.median / peak, text_of(r->value.median, "%.2f of ") + text_of(peak, "%.0f ") + what,
                 half_spread(*r), 1);
  };
  rate("fp32_fma_fraction", "fp32_fma_per_clk", gpu_.sm.fp32_flop_per_clk / 2,
       "FMA lanes/clk/SM; all of the issue rate too where that is four warps");
  rate("sfu_fraction", "sfu_exp2_per_clk", gpu_.sm.sfu_op_per_clk, "ex2 lanes/clk/SM");
  const Record* convert = best_of(records_of(run_, "bf16x2_convert_per_clk"));
  if (convert != nullptr) take("bf16x2_convert_per_clk", convert, "lanes that pack two fp32 into bf16, clk and SM");
}

void MachineFit::epilogue() {
  const std::string setting = "way=copy_engine;tile=128x256;sms=" + std::to_string(run_.session.sms);
  const std::string how = "128 x 256 fp32 accumulators to bf16 by bulk copies, all SMs at once";
  take("epilogue_store_clk", one("epilogue_store_clk", setting), how + ": until the SM can go on");
  take("epilogue_visible_clk", one("epilogue_visible_clk", setting), how + ": until all is written");
}

}  // namespace

Scalars fit_machine(const Gpu& gpu, const ProbeRun& run) { return MachineFit(gpu, run).fit(); }

}  // namespace plumbline
