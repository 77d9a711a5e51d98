// "How fast can this card be?" on one screen: derived peaks, memory levels, ridge points, occupancy limits,
// calibration.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "arch/calibration/calibration.hpp"
#include "arch/gpu/gpu.hpp"
#include "arch/gpu/occupancy.hpp"
#include "model/report/columns.hpp"

namespace plumbline {

/// Shared memory of the typical kernels on the page.
inline constexpr std::array<double, 4> kPageSmemKiB{0, 48, 100, 200};

/// Blocks per SM of a kernel with so many threads and registers, for several sizes of shared memory.
struct OccupancyRow {
  std::int64_t threads = 0, registers = 0;
  std::vector<Occupancy> by_smem;  ///< in the order of kPageSmemKiB
};

/// What the page shows, worked out once for all writers.
struct GpuPage {
  const Gpu& gpu;
  std::optional<Calibration> calibration;  ///< none: datasheet numbers only
  std::vector<DType> tensor_types;         ///< those with a tensor path, in the order of DType
  std::vector<OccupancyRow> occupancy;
};

/// Finds the calibration (own, inherited or none) and the occupancy of typical kernels.
GpuPage gpu_page(const Gpu& gpu);

// Parts that several writers show.
Columns compute_columns(const GpuPage& page);    ///< peaks at boost and at the datasheet's clock, ridge points
Columns memory_columns(const GpuPage& page);     ///< levels, from shared memory to DRAM
Columns occupancy_columns(const GpuPage& page);  ///< blocks per SM of typical kernels
std::string calibration_text(const GpuPage& page);
/// Where the descriptor's own numbers come from, each source once; those of its family are counted.
std::vector<std::string> source_lines(const GpuPage& page);

std::string gpu_page_table(const GpuPage& page, const TextStyle& style);
std::string gpu_page_json(const GpuPage& page);  ///< schema plumbline.gpu.v1
std::string gpu_page_html(const GpuPage& page);  ///< a page of its own (model/report/html)

}  // namespace plumbline
