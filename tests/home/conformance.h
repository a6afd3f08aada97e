// The home conformance suite: what every home must do, written against core::Home and run against each (homes.md). A binary compiles conformance.cc and
// instantiates HomeConformance with the place it is about:
//
//   INSTANTIATE_TEST_SUITE_P(directory, HomeConformance, ::testing::Values(PlaceMaker{"directory", [] { return make_directory_place(); }}), place_name);
#pragma once
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "core/home.h"

namespace onepen::testing {

enum class Lose { answer, request, until_later };

// One place where streams live, empty at first. Each home opened is what another process would have.
class Place {
 public:
  virtual ~Place() = default;
  virtual Runtime& runtime() = 0;
  virtual std::unique_ptr<core::Home> open() = 0;
  // The next claim or append through `home` (one that open() gave): its answer is lost, or it is lost on the way, or it arrives only at deliver_late().
  virtual void lose_next_change(core::Home& home, Lose how) = 0;
  virtual void deliver_late(core::Home& home) = 0;
};

struct PlaceMaker {
  std::string name;
  std::function<std::unique_ptr<Place>()> make;
};

class HomeConformance : public ::testing::TestWithParam<PlaceMaker> {
 protected:
  HomeConformance() : place_(GetParam().make()) {}
  std::unique_ptr<Place> place_;
};

inline std::string place_name(const ::testing::TestParamInfo<PlaceMaker>& info) { return info.param.name; }

}  // namespace onepen::testing
