// What one launch asks of the machine, and where the time of it went. The timing engine (timing.hpp) turns the first
// into the second for any kernel; planners only fill in `Demand`.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "arch/units.hpp"
#include "ops/plan/plans.hpp"

namespace plumbline {

/// The resources that a launch can be bound by, in the order of `ResourceTimes`.
enum class Resource { tensor, fp32, sfu, issue, smem, l2, dram, link, latency, count_ };
inline constexpr std::size_t kResourceCount = static_cast<std::size_t>(Resource::count_);
std::string_view name(Resource resource);

template <class T>
class PerResource {
 public:
  constexpr T& operator[](Resource r) { return values_[static_cast<std::size_t>(r)]; }
  constexpr const T& operator[](Resource r) const { return values_[static_cast<std::size_t>(r)]; }
  auto begin() const { return values_.begin(); }
  auto end() const { return values_.end(); }

 private:
  std::array<T, kResourceCount> values_{};
};

/// Loads from memory that begin a launch whose operands come by tensor maps, one after the other
/// (Demand::serial_latency): the maps, and what they describe.
inline constexpr double kChainedLoads = 2;

/// What L2 is limited by where a launch reads.
enum class L2Limit {
  lines,    ///< what L2 gives distinct lines, at most what the SMs can take
  ports,    ///< the SMs' own ports: neighbours ask for the same lines side by side, and L2 answers merged requests once
  lookups,  ///< the lookups that are left of requests merged on their way (Demand::lookups), counted
};

/// Work of one launch, in physical facts only: no field says who wrote the kernel. "Per step" is one main-loop iteration
/// of one CTA, in clocks of the SM unit that does it.
struct Demand {
  KernelPlan plan;
  // per CTA and step: SM clocks at full rate of the unit
  double tensor_clk = 0, fp32_clk = 0, sfu_clk = 0, issue_clk = 0, smem_clk = 0;
  double waiting_issue_clk =
      0;                  ///< per CTA and step: of `issue_clk` slots in which nothing is issued (time, no energy)
  double pieces_clk = 0;  ///< per CTA and step: of `smem_clk` what the port is busy with requests, and no bytes pass
  double smem_hidden_clk = 0;  ///< per CTA and step: operands read again while the tensor units work (energy, no time)
  Bytes l2;                    ///< per CTA and step: requested from L2
  Bytes
      l2_hidden;  ///< per CTA and step: requested too, hidden behind waits that are priced otherwise (energy, no time)
  Bytes
      delivered;  ///< per CTA and step: beside `l2`, what another CTA of the cluster fetches for both (energy, no time)
  L2Limit l2_limit = L2Limit::lines;
  Bytes lookups;  ///< per CTA and step, with L2Limit::lookups: what is left of `l2` once neighbours' requests merged
  double edge_fill_clk = 0;  ///< per CTA and step: what loads take for rows that are not there
  double port_fill_clk = 0;  ///< per CTA and step: the same beside another CTA, whose waits for DRAM it hides behind
  /// per CTA and step: of the one line of L2 that all rows of boxes outside a tensor are asked of, which serves the CTAs
  /// of the launch in turn
  double outside_clk = 0;
  Seconds step_latency;  ///< per CTA and step: load latency / stages in flight; co-resident CTAs hide each other's
  double chain_clk = 0;  ///< per CTA and step: instructions that wait for each other, SM clocks; at least so long
  double dealt_clk = 0;  ///< once: until the last CTA has ended, SM clocks, where the planner dealt them out itself
  Seconds start;         ///< once: until the first step of all the CTAs that begin together has come
  Seconds
      next_tile_wait;  ///< per CTA of a persistent launch but for the last: from its end to the next one's first step
  double exposed_clk = 0;  ///< per CTA and step: clocks that overlap with nothing (softmax not hidden, barriers)
  /// Its warps wait for bytes, and for room, by polling barriers in shared memory: rings that a copy engine fills.
  bool polls = false;
  // per CTA, once
  double once_clk = 0;    ///< prologue and epilogue clocks that the next CTA on the SM does not hide
  double serial_clk = 0;  ///< clocks in which the CTA's own steps stand still (epilogue)
  /// While a CTA's steps stand still its loads do too, and behind the last read of a persistent launch its last step and
  /// epilogue are seen. Else loads run on ahead of the epilogue.
  bool loads_stop = false;
  /// Work is dealt out once, so that SMs that got less run dry; else CTAs take it as they go.
  bool dealt_once = false;
  /// CTAs of a last wave that is not full begin as the others end, and take as long as they do alone: without what
  /// `dealt_once` says of uneven work.
  bool ends_alone = false;
  // per launch
  Bytes l2_distinct, l2_written;  ///< beside `lookups`: lines that are read at all, and written
  Bytes dram_read, dram_write;    ///< after L2 filtering
  /// Of the launch: what it reads beside these and L2 holds. Both are asked for at the same time, and a CTA goes on when DRAM's
  /// is there: nothing else hides its passage.
  Bytes held;
  double dram_share = 1;  ///< of DRAM's rate that accesses in such pieces reach, beside the family's
  /// Of `dram_read` and of `dram_write` each: partial results of another launch of the operator that L2 does not hold,
  /// however warm the operands are.
  Bytes partials;
  Bytes in_flight;  ///< DRAM bytes one CTA keeps outstanding (Little's law); 0: not limiting
  Bytes link;       ///< between GPUs, or to the host
  /// Of `link` what lands in buffers of the library in memory and is read from there: beside the operator's own bytes, and
  /// within the time that the link takes. Counts where others want the memory meanwhile.
  Bytes staged;
  Bandwidth link_rate;                                       ///< ... at this; 0: at the host link's
  bool copy_engine = false;                                  ///< it has no CTAs: a copy engine moves the bytes
  Seconds serial_latency;                                    ///< dependent latencies that nothing hides
  const char* serial_latency_of = "of dependent latencies";  ///< ... in words
  Seconds gaps;  ///< of `serial_latency`: between a launch before, which is no launch here, and its neighbours
  /// CTAs start as others end, each at its own time: no waves, one body for all of them.
  bool no_waves = false;
  /// p of the p-norm over resources, where the planner knows better than the family; 0: it does not
  double overlap = 0;
};

/// What a launch really runs at.
struct Speeds {
  double tensor = 1;  ///< share of the tensor rate at the SM clock
  double sm = 1;      ///< SM clock / the machine's
  double l2 = 1;      ///< of what L2 gives of distinct lines / what it gives at the machine's clock
};

/// Time of one launch, from the first CTA's start to the last one's end.
struct LaunchTime {
  Seconds total, fixed, body, tail;
  PerResource<Seconds> by_resource;  ///< each resource's own time, had it been alone
  /// Parts of `total`, each for what a resource adds to it: were the resource faster by one part in a thousand, the launch
  /// would be shorter by a thousandth of its part (of terms that overlap, by the derivative of their p-norm).
  PerResource<Seconds> spent;
  Resource limiter = Resource::latency;
  double waves = 0;
};

}  // namespace plumbline
