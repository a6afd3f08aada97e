// One claim, from its first request until it is decided and everything before it is folded (fence.md, "The claim").
#pragma once
#include "owner/catch_up.h"
#include "owner/open.h"

namespace onepen::owner {

class Claim {
 public:
  // All of them outlive it.
  Claim(Runtime& runtime, core::Stream& stream, ClaimLog& claims, Fold& fold, const Options& options, CatchUp& reading);

  // `seen`: the stream as it was looked at. The fold is settled just at, or just after, our claim. Errors as Owner::open; epoch_closed when somebody claimed
  // before we began to own. Once.
  Result<Opened> run(const Seen& seen, const core::ClaimNow& now);
  bool claimed() const { return std::holds_alternative<core::Owning>(writer_.state()); }  // the home answered that the claim is ours

 private:
  Result<> read_the_rest(const core::ClaimReceipt& claimed);
  bool is_newer(const core::Record& record);
  Result<core::ClaimReceipt> drive(core::Event event);
  Result<> write_ahead(const core::ClaimRequest& request);
  void remember_trouble(const core::Event& event);
  Error no_answer() const;
  void tell(const Seen& seen, const core::ClaimReceipt& receipt) const;

  Runtime& runtime_;
  core::Stream& stream_;
  ClaimLog& claims_;
  Fold& fold_;
  const Options& options_;
  CatchUp& reading_;
  const std::string name_;
  core::Writer writer_;
  bool own_seen_ = false;
  std::optional<onepen::Owner> newer_;
  std::string trouble_;  // the message of the home's last refusal while claiming
};

Error stopped_open(const std::string& stream);

}  // namespace onepen::owner
