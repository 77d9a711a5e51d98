// The GPU page as JSON: SI units, the unit at the end of the key, and the source of every number.
#include <nlohmann/json.hpp>
#include <utility>

#include "arch/gpu/peaks.hpp"
#include "model/report/gpu_page.hpp"
#include "model/report/json_parts.hpp"

namespace plumbline {
namespace {

Json compute_json(const GpuPage& page) {
  const Gpu& g = page.gpu;
  Json tensor = Json::object();
  for (const DType type : page.tensor_types) {
    Json row{{"flop_per_clk_per_sm", g.sm.tensor_flop_per_clk[type]},
             {"boost_FLOP_per_s", tensor_peak(g, type, g.boost_clock).in(units::FLOP_per_s)}};
    const FlopRate datasheet = g.datasheet_tensor_peak[type];
    row["at_datasheet_clock_FLOP_per_s"] = tensor_peak(g, type, g.datasheet_tensor_clock).in(units::FLOP_per_s);
    row["datasheet_FLOP_per_s"] =
        datasheet > 0.0 * units::FLOP_per_s ? Json(datasheet.in(units::FLOP_per_s)) : Json(nullptr);
    row["ridge_FLOP_per_B"] = ridge_point(g, type, g.boost_clock).in(units::FLOP_per_B);
    tensor[std::string(name(type))] = std::move(row);
  }
  return {{"tensor", std::move(tensor)},
          {"fp32_FLOP_per_s", fp32_peak(g, g.boost_clock).in(units::FLOP_per_s)},
          {"fp64_FLOP_per_s", fp64_peak(g, g.boost_clock).in(units::FLOP_per_s)},
          {"sfu_op_per_s", sfu_peak(g, g.boost_clock).in(units::Hz)}};
}

Json memory_json(const Gpu& g) {
  return {{"smem_bytes_per_sm", g.sm.smem.in(units::B)},
          {"smem_B_per_s", smem_peak(g, g.boost_clock).in(units::B_per_s)},
          {"l2_bytes", g.l2.size.in(units::B)},
          {"l2_B_per_s", l2_peak(g, g.boost_clock).in(units::B_per_s)},
          {"l2_latency_s", g.l2.latency.in(units::s)},
          {"l2_far_latency_s", (g.l2.far_latency_ratio * g.l2.latency).in(units::s)},
          {"l2_partitions", g.l2.partitions},
          {"l2_reuse_fraction", g.l2.reuse_fraction},
          {"l3_bytes", g.l3_size.in(units::B)},
          {"dram_type", g.memory_type},
          {"dram_bytes", g.memory.capacity.in(units::B)},
          {"dram_B_per_s", g.memory.bandwidth.in(units::B_per_s)},
          {"dram_ecc_share", g.memory.ecc_share},
          {"dram_latency_s", g.memory.latency.in(units::s)}};
}

Json limits_json(const GpuPage& page) {
  const StreamingMultiprocessor& sm = page.gpu.sm;
  Json table = Json::array();
  for (const OccupancyRow& row : page.occupancy) {
    for (std::size_t i = 0; i < row.by_smem.size(); ++i) {
      table.push_back({{"threads", row.threads},
                       {"registers_per_thread", row.registers},
                       {"smem_bytes", kPageSmemKiB[i] * 1024},
                       {"blocks_per_sm", row.by_smem[i].blocks_per_sm},
                       {"limited_by", row.by_smem[i].limited_by},
                       {"warp_fraction", row.by_smem[i].warp_fraction}});
    }
  }
  return {{"threads_per_sm", sm.threads},
          {"blocks_per_sm", sm.blocks},
          {"registers_per_sm", sm.registers},
          {"smem_bytes_per_sm", sm.smem.in(units::B)},
          {"threads_per_block", sm.threads_per_block},
          {"registers_per_thread", sm.registers_per_thread},
          {"smem_bytes_per_block", sm.smem_per_block.in(units::B)},
          {"warp_size", sm.warp_size},
          {"typical", std::move(table)}};
}

Json calibration_json(const GpuPage& page) {
  if (!page.calibration) return nullptr;
  Json machine = Json::object();
  for (const auto& [key, scalar] : page.calibration->machine) {
    machine[key] = {{"value", scalar.value}, {"source", scalar.source}};
  }
  return {{"gpu", page.calibration->gpu}, {"inherited", page.calibration->inherited}, {"machine", std::move(machine)}};
}

}  // namespace

std::string gpu_page_json(const GpuPage& page) {
  const Gpu& g = page.gpu;
  Json out;
  out["schema"] = "plumbline.gpu.v1";
  out["name"] = g.name;
  out["title"] = g.title;
  out["vendor"] = g.vendor;
  out["architecture"] = g.architecture;
  out["compute_capability"] = g.compute_capability;
  out["generation"] = g.generation;
  out["matrix_unit"] = name(g.sm.matrix_unit);
  out["async_copy"] = name(g.sm.async_copy);
  out["process"] = {{"node", g.process.node}, {"energy_ratio", g.process.energy_ratio}};
  out["clusters"] = {{"counted_on_sms", g.clusters.sms},
                     {"of_2", g.clusters.of_2},
                     {"of_4", g.clusters.of_4},
                     {"of_8", g.clusters.of_8}};
  out["sm_count"] = g.sm_count;
  out["boost_clock_Hz"] = g.boost_clock.in(units::Hz);
  out["base_clock_Hz"] = g.base_clock.in(units::Hz);
  out["datasheet_tensor_clock_Hz"] = g.datasheet_tensor_clock.in(units::Hz);
  out["tdp_W"] = g.tdp.in(units::W);
  out["idle_power_W"] = g.idle_power.in(units::W);
  out["compute"] = compute_json(page);
  out["memory"] = memory_json(g);
  out["links"] = {{"nvlink_B_per_s_per_direction", g.links.nvlink_per_direction.in(units::B_per_s)},
                  {"nvlink_count", g.links.nvlink_count},
                  {"pcie_B_per_s_per_direction", g.links.pcie_per_direction.in(units::B_per_s)}};
  out["occupancy"] = limits_json(page);
  out["calibration"] = calibration_json(page);
  out["sources"] = g.sources;
  out["assumptions"] = g.assumptions;
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace plumbline
