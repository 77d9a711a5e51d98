// A step whose streams run side by side: what each launch asks of the GPU becomes a timeline (timeline.hpp), and the
// timeline what each node adds to the step's time.
#pragma once

#include <map>
#include <vector>

#include "model/engine/rates.hpp"
#include "model/predict.hpp"
#include "model/schedule/timeline.hpp"

namespace plumbline {

/// Fills in `tax`, `hidden`, `beside` and `begins` of the nodes of a step that is priced (Graph::side_by_side; else does
/// nothing). Each segment is a timeline of its own, from its first launch to its last; of many repeats the first two and
/// the last two are laid out, and the others are as the middle ones. Keeps its storage for the next clock.
class SideBySide {
 public:
  explicit SideBySide(const Rates& rates) : m_(rates) {}
  void operator()(StepPrediction& step);
  /// Of the nodes of one stage of a pipeline (keep_slowest_stage): what it hands on travels beside the next micro-batch
  /// (PipelineStages::sends_beside; else does nothing), the last one's alone. What compute is longer for it is that of the
  /// layers that the stage has most of.
  void sends(StepPrediction& step);

 private:
  struct Piece {
    std::size_t node = 0;
    int launch = 0;  ///< of the node's operator; -1: one without launches
    int repeat = 0;
    double executions = 1;
  };
  class Prices;

  void lay_out(const StepPrediction& step, const Segment& segment, int repeats);
  void lay_out_send(const StepPrediction& step, std::size_t send, const Segment& segment);
  void add(const StepPrediction& step, const Segment& segment, std::size_t node, int repeat);
  TimedLaunch timed(const NodePrediction& n, int launch, double executions) const;
  /// Of a node of the segment, counted in it, in `last_piece_`.
  static std::size_t place(const Segment& segment, int repeat, int node);
  int last_of_half(const Graph& graph, const Segment& segment, int half, int repeat) const;
  void read_off(StepPrediction& step, const Segment& segment, int repeats) const;
  const Rates& fewer(double sms);

  const Rates& m_;
  std::map<double, Rates> fewer_;  ///< machines of so many SMs
  std::vector<Piece> pieces_;
  std::vector<TimedLaunch> launches_;
  std::vector<LaunchSpan> spans_;
  std::vector<int> last_piece_;  ///< [repeat][node of the segment]
};

/// SMs that the launches of a collective hold while they run.
double sms_held(const OpPrediction& op, const Rates& rates);
/// The share of its time that it keeps DRAM busy.
double memory_held(const OpPrediction& op, const Rates& rates);

}  // namespace plumbline
