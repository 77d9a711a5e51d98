// Where machines are made from files: the one place above arch/ that reads descriptors and calibrations, and one cache
// of what it made for all who ask.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "model/machine.hpp"

namespace plumbline {

/// Throws BadInput when no calibration can be found for the card, or one that lacks a scalar; NotModelled for options
/// that need energies where none are on file.
Machine make_machine(const Gpu& gpu, const MachineOptions& options);
/// The same under a calibration that is given; reads the descriptor of its card where it is another one's.
Machine make_machine(const Gpu& gpu, const Calibration& calibration, const MachineOptions& options);

/// Which machine: a descriptor (name or file) with numbers overridden, a calibration (empty: the card's own, or the
/// one it inherits) and options.
struct MachineKey {
  std::string gpu;
  MachineOptions options{};
  std::string calibration_file{};
  std::vector<Override> overrides{};

  bool operator<(const MachineKey& other) const;
};

/// Machines by key, each made once, files read once. For any number of threads.
class Machines {
 public:
  /// Throws as make_machine() and load_gpu() do.
  Machine get(const MachineKey& key);
  /// The same, and what is changed by overrides is not kept: for studies, which never come back to most machines.
  Machine once(const MachineKey& key);
  /// The stack of that name, or in that file. Throws BadInput as parse_stack() does, and for a name that is not known.
  const Stack& stack(const std::string& name_or_path);
  /// What joins several of the card: the cluster of that name or file, or what is assumed where there is no name. Throws
  /// BadInput as load_cluster() does.
  std::shared_ptr<const Cluster> cluster(const Gpu& gpu, const std::string& name);
  /// The descriptor alone.
  const Gpu& gpu(const std::string& name_or_path);

 private:
  Machine made(const MachineKey& key);
  Machine changed(const MachineKey& key);
  std::mutex mutex_, stacks_mutex_;  // stacks and clusters are asked for while a machine is made
  std::map<MachineKey, Machine> machines_;
  std::map<std::string, Gpu> gpus_;
  std::map<std::string, std::shared_ptr<const Stack>> stacks_;
  std::map<std::string, std::shared_ptr<const Cluster>> clusters_;
  /// Of a card by that name, which takes over that other one's, or from a file.
  std::map<std::tuple<std::string, std::string, std::string>, Calibration> calibrations_;
};

/// The process's own.
Machines& machines();

/// Names of the stacks that are shipped, sorted.
std::vector<std::string> stack_names();

}  // namespace plumbline
