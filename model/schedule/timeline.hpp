// Launches of two streams on one GPU: when each begins and ends, where those of the other stream take SMs and bandwidth
// from it.
//
// A launch waits for the one before it on its stream and for those that it depends on. Launches of the two streams that
// run at once share the GPU by what each asks of it:
//
// SMs.   CTAs keep their SM until they end. A launch that begins beside one that holds b of S SMs finds S - b. Where its
//        CTAs come in waves, or take work as they go, it goes on as on a GPU of S - b SMs. Where all of them should begin
//        at once (one wave, or a persistent grid whose work is dealt out beforehand) those that find no SM wait for the
//        other's end, or for the first of their own to end: with E the time of those that begin and L that of the late
//        ones, beside a launch that goes on for r it takes max(E, min(r, E) + L), and never less than alone.
//        What becomes ready while the other stream's CTAs have the SMs that it needs waits until these turn over: for a
//        wave of them, or for all of a launch whose CTAs stay.
// Bytes. DRAM and L2 serve both as they ask: where the shares of time that either is busy with each of them add up to
//        more than 1, both are slower by that sum.
//
// At a tie communication begins first: stacks give its stream the higher priority.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "arch/units.hpp"

namespace plumbline {

/// A launch by itself.
struct TimedLaunch {
  int stream = 0;                      ///< 0: compute; 1: communication
  std::array<int, 2> depends{-1, -1};  ///< launches in front of it in the list that must have ended; -1: none
  Seconds time;                        ///< with the gap behind it
  Seconds turn;                        ///< until its CTAs have turned over; `time` where they stay
  double dram = 0, l2 = 0;             ///< shares of `time` that it keeps them busy
};

/// A launch that computes, beside one that communicates.
struct SharedLaunch {
  bool apart = false;       ///< it needs SMs that the other holds
  bool none_left = false;   ///< ... which holds all: it begins when the other ends
  bool at_once = false;     ///< its CTAs should begin together
  Seconds time;             ///< on the SMs that are left; at once: of the CTAs that find one
  Seconds late;             ///< at once: of the CTAs that find none, by themselves
  double dram = 0, l2 = 0;  ///< shares of `time`
};

/// Who knows the launches: what `compute` is while `network` holds its SMs. Both are places in the list.
class Sharing {
 public:
  virtual ~Sharing() = default;
  virtual SharedLaunch beside(std::size_t compute, std::size_t network) const = 0;

 protected:
  Sharing() = default;
  Sharing(const Sharing&) = default;
  Sharing& operator=(const Sharing&) = default;
};

struct LaunchSpan {
  Seconds start, end;
  Seconds beside;  ///< of it: a launch of the other stream ran too
  int other = -1;  ///< ... the one that did so longest
};

/// When each launch runs. At any time up to the last end one launch runs at least. Each begins after those that it depends
/// on and the one before it on its stream have ended. Linear in the number of launches.
void schedule(const std::vector<TimedLaunch>& launches, const Sharing& sharing, std::vector<LaunchSpan>& spans);

}  // namespace plumbline
