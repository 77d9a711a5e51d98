// One GPU as the model sees it: counts, per-unit rates, sizes and bandwidths. Peaks are derived from these (peaks.hpp),
// never stored. The descriptor is vendor-neutral: an "SM" is the smallest unit that a thread block runs on (an AMD CU),
// a "warp" its lock-step group.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "arch/dtype.hpp"
#include "arch/units.hpp"

namespace plumbline {

/// The instructions that drive the tensor units, which decide where operands come from: registers of a warp (mma_sync,
/// and AMD's mfma of a wavefront), shared memory for a group of four warps (wgmma), shared memory for a whole tile, with
/// accumulators in a memory of their own (tcgen05).
enum class MatrixUnit { mma_sync, wgmma, tcgen05, mfma };

/// How bytes get from L2 into shared memory without passing through registers: not at all, 16 bytes a thread
/// (cp_async), tiles by a copy engine (tma), or a wavefront's loads straight into LDS (load_to_lds, AMD).
enum class AsyncCopy { none, cp_async, tma, load_to_lds };

std::string_view name(MatrixUnit unit);
std::string_view name(AsyncCopy copy);

/// What one SM does per SM clock, and what a kernel may occupy of it.
struct StreamingMultiprocessor {
  MatrixUnit matrix_unit = MatrixUnit::mma_sync;
  AsyncCopy async_copy = AsyncCopy::none;
  PerDType<double> tensor_flop_per_clk;  ///< dense, fp32 (int32) accumulation; 0 = no such path
  double fp32_flop_per_clk = 0;          ///< an FMA counts 2 (128 lanes -> 256)
  double fp64_flop_per_clk = 0;
  double sfu_op_per_clk = 0;  ///< exp2, rcp, rsqrt, ...: MUFU instructions a clock
  double issue_per_clk = 0;   ///< warp instructions a clock (schedulers)
  Bytes smem_bytes_per_clk;   ///< shared-memory port
  Bytes l2_bytes_per_clk;     ///< what one SM can take from L2 a clock
  Bytes smem, smem_per_block, smem_reserved_per_block, smem_granule;
  Bytes l1_and_smem;
  std::int64_t registers = 0, registers_per_thread = 0;
  std::int64_t threads = 0, threads_per_block = 0, blocks = 0;
  std::int64_t warp_size = 32, register_granule = 256, warp_granule = 4;

  bool operator==(const StreamingMultiprocessor&) const = default;
};

struct Level2 {
  Bytes size;
  Bandwidth bandwidth;  ///< reads, all SMs, at the boost clock
  Seconds latency;      ///< near hit, unloaded
  std::int64_t partitions = 1;
  double far_latency_ratio = 1;  ///< latency of a hit in the partition of other SMs, over `latency`; 1: none is far
  /// Of what L2 can hold, the share that is still there of data that are used again, where its indices are hashes and
  /// lines have copies in both partitions.
  double reuse_fraction = 1;

  bool operator==(const Level2&) const = default;
};

/// How many clusters of CTAs are resident at once, at one CTA an SM. A cluster lies within a GPC, and GPCs have
/// different counts of SMs, so that some SMs are left over. Counted on a card of `sms` SMs; another card of the family
/// is taken to leave the same share over.
struct ClusterSlots {
  std::int64_t sms = 0;  ///< 0: the GPU has no clusters
  std::int64_t of_2 = 0, of_4 = 0, of_8 = 0;

  /// Share of the SMs that clusters of so many CTAs can use; 1 where the GPU has no clusters.
  double share(std::int64_t ctas) const;

  bool operator==(const ClusterSlots&) const = default;
};

/// What the chip is made in.
struct Process {
  std::string node;         ///< "TSMC 4N"
  double energy_ratio = 1;  ///< energy of the same logic at the same voltage, over TSMC 4N's
};

struct DeviceMemory {
  Bytes capacity;       ///< what the vendor calls the size, in real (binary) bytes
  Bandwidth bandwidth;  ///< nominal (datasheet) rate, as calibration fractions are of it; the wire rate may be higher
  Seconds latency;      ///< unloaded, to DRAM
  /// Share of the memory that holds the check bits of the rest, where these lie in line with the data (GDDR6 with ECC
  /// switched on; HBM and GDDR7 have cells of their own for them): 0 or 1/16.
  double ecc_share = 0;
  /// Of `data_bandwidth`, what a stream of reads was measured to reach on a card that has no calibration of its own; 0: not
  /// on file. It goes with the memory (GDDR6 0.98, HBM2e of one vendor 0.87, of another 0.85), not with the SMs' generation.
  double read_fraction = 0;

  /// What programs can allocate, before what the driver keeps for itself.
  Bytes usable_capacity() const { return capacity * (1 - ecc_share); }
  /// The rate of data alone: check bits in line travel with them. Holds for streams, whose check bits are all used while
  /// they are near; scattered sectors fetch more of them.
  Bandwidth data_bandwidth() const { return bandwidth * (1 - ecc_share); }

  bool operator==(const DeviceMemory&) const = default;
};

/// One-way rates of one GPU. 0 = no such link.
struct GpuLinks {
  Bandwidth nvlink_per_direction;  ///< all links together (AMD: Infinity Fabric)
  std::int64_t nvlink_count = 0;
  Bandwidth pcie_per_direction;

  bool operator==(const GpuLinks&) const = default;
};

/// What a GPU is in numbers: flat, so that one of them can be changed a million times a second (model/machine.hpp).
struct GpuNumbers {
  std::int64_t sm_count = 0;
  Hertz base_clock;  ///< 0 = not on file
  Hertz boost_clock;
  StreamingMultiprocessor sm;
  ClusterSlots clusters;
  Level2 l2;
  Bytes l3_size;  ///< memory-side cache (MALL), 0 if none
  DeviceMemory memory;
  GpuLinks links;
  Watts tdp, idle_power;
  /// That the board takes to hold its cap, where that is known to be less than a short benchmark; 0: not on file.
  Seconds cap_within;

  bool operator==(const GpuNumbers&) const = default;
};

/// A descriptor: the numbers, what the GPU is called and where each number comes from.
struct Gpu : GpuNumbers {
  std::string name;   ///< short name: "h200_sxm"
  std::string title;  ///< "H200 SXM 141GB"
  std::string vendor, architecture;
  std::string compute_capability;  ///< "9.0", "gfx942": names the card, decides nothing
  /// Cards of one generation have the same SM, so that what kernels were measured to reach carries over between them.
  std::string generation;
  Process process;
  /// Whose calibration file to read; fractions of datasheet peaks are inherited from it (calibration.hpp).
  std::string calibration;
  std::string cluster;      ///< shipped cluster of it, where no other is asked for; empty: none
  std::string memory_type;  ///< "HBM3e", "GDDR6", ...
  /// Datasheet tensor peaks, kept to check the derived ones against; not used by the model.
  PerDType<FlopRate> datasheet_tensor_peak;
  Hertz datasheet_tensor_clock;  ///< the clock that the datasheet's tensor peaks assume
  /// Descriptor path ("/memory/bandwidth") -> where the number comes from. Inherited and assumed numbers say so.
  std::map<std::string, std::string> sources;
  /// What numbers that nobody states are derived from; 0 where they are stated: l2.bandwidth = SMs x this x boost clock,
  /// idle_power = this x TDP.
  double l2_bytes_per_sm_clk = 0, idle_power_fraction = 0;
  bool modified = false;         ///< a number was overridden: a machine that nobody has measured
  std::vector<std::string> set;  ///< paths of the overrides
  /// What was inherited, derived or overridden: one sentence each, for the report.
  std::vector<std::string> assumptions;
};

/// A number that `--set` can change, and the units that it is written in.
struct GpuParameter {
  std::string path, unit;
};

/// All of them, in the order of a descriptor.
std::vector<GpuParameter> gpu_parameters();

/// `changed`, with the numbers that `gpu` derives from others derived again, where they were left as they were `before`
/// (the numbers of `gpu`, or others that were made of them): an L2 bandwidth made of SMs and clock, one that is stated
/// (it is that at the boost clock), an idle power made of the TDP. `set`: paths whose numbers are meant as they stand.
GpuNumbers derived_again(const Gpu& gpu, const GpuNumbers& before, const GpuNumbers& changed,
                         const std::vector<std::string>& set = {});

/// What every machine needs of its numbers, wherever they come from: counts, rates, sizes and clocks that are finite and
/// above zero, base clock no higher than boost, TDP above idle. Throws BadInput naming the number.
void check_numbers(const GpuNumbers& numbers);

/// "memory.bandwidth" = "6TB/s": one `--set`. Also relative to what the descriptor has: "+20%", "-10%", "x1.5".
struct Override {
  std::string path, value;
};

/// Reads a descriptor by short name, alias, title (also as drivers print it) or file path, follows `extends`, applies
/// the overrides in order, and checks. Throws BadInput: unknown name (with the nearest), unknown or missing key, wrong
/// unit, or physics that can't be.
Gpu load_gpu(const std::string& name_or_path, const std::vector<Override>& overrides = {});

/// The same from text; `place` stands in front of every message (fuzzers and tests).
Gpu parse_gpu(const std::string& json_text, const std::string& place, const std::vector<Override>& overrides = {});

/// Short names of all descriptors under data/gpus, sorted.
std::vector<std::string> gpu_names();

}  // namespace plumbline
