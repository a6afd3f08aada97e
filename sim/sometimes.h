// Places that a sweep must reach: a run that never got there proves nothing about it. Each is counted per sweep; one of the required ones at zero fails it.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>

namespace onepen::sim {

#define ONEPEN_SOMETIMES(X) \
  X(opened)                      /* somebody became owner */ \
  X(took_over)                   /* … from another owner that was not dead */ \
  X(fenced_with_pending)         /* an owner was fenced while appends of its were undecided */ \
  X(fenced_after_pause)          /* an owner that stood still woke up and was refused */ \
  X(killed_with_pending)         /* a process was killed while appends of its were undecided */ \
  X(undecided_landed)            /* an append whose waiter was told "undecided" is in the stream */ \
  X(undecided_never_landed)      /* … is not */ \
  X(refused_for_certain)         /* an append was refused and is nowhere */ \
  X(own_object_found)            /* an answer was lost, and the resend found the object there with our bytes */ \
  X(late_put_after_claim)        /* a held PUT arrived after a newer claim had been answered */ \
  X(late_put_made_object)        /* … and made the object */ \
  X(claim_lost_to_claim)         /* a claim was answered epoch-closed */ \
  X(claim_base_lost)             /* a conditional claim lost its base */ \
  X(claim_unknown)               /* a claim was answered unknown */ \
  X(name_lost_with_power)        /* power went between a link and the sync of its folder, and the name was lost */ \
  X(name_kept_with_power)        /* … and the name was kept */ \
  X(held_if_dead)                /* an if_dead open was answered held */ \
  X(warm_open)                   /* an open began from a copy that was not empty */ \
  X(several_in_one_object)       /* one create carried several appends */ \
  X(misuse_refused)              /* a client that breaks the rules was refused */ \
  X(cloned_seen)                 /* two holders of one claim were told so */ \
  X(void_object)                 /* the log holds an object that does not count */ \
  X(raced_claim)                 /* a claim was placed before everything below it was read (B3) */ \
  X(foreign_receipt)             /* a claim was answered with the claim that had been stored instead */ \
  X(damage_refused)              /* a log damaged in the middle stopped its reader there */ \
  X(reader_saw_claim)            /* a reader saw a change of owner */ \
  X(disk_failed)                 /* a call of the home's disk or bucket failed for certain */ \
  X(healed)                      /* the run ended with an owner, appends and a confirmed read */

// Those of runs with SQLite.
#define ONEPEN_SQLITE_SOMETIMES(X) \
  X(sqlite_opened)               /* a database was opened by name */ \
  X(sqlite_reset)                /* a handle was reset */ \
  X(sqlite_synced)               /* onepen_synced() answered */ \
  X(committed_locally)           /* a COMMIT answered before the stream had it */ \
  X(killed_with_unsent)          /* a process was killed with local commits that no synced() had covered */ \
  X(unsent_in_salvage)           /* a commit that never reached the stream is in a salvage folder */ \
  X(unsent_in_copy)              /* … is still pending in its copy */ \
  X(unsent_landed)               /* a local commit that nobody was told of is in the stream */ \
  X(unsent_lost_with_power)      /* … went with the power, as synchronous=NORMAL allows */ \
  X(took_over_pending)           /* an open found pending commits in its copy */ \
  X(pending_resent)              /* … and they reached the stream under the new epoch */ \
  X(went_live)                   /* a database opened without its home became an owner */ \
  X(self_claim_fenced)           /* a claim that nobody asked for was refused because somebody else had claimed */ \
  X(snapshot_begun)              /* somebody began with a snapshot */ \
  X(compacted)                   /* small objects were packed */ \
  X(trimmed)                     /* objects of the log were deleted */ \
  X(reader_gone)                 /* a reader stood below a trim and was told so */ \
  X(restored)                    /* an admin made an older state a new history */ \
  X(adopted)                     /* an admin adopted a log as it lay there */ \
  X(removed)                     /* an admin removed the stream */ \
  X(cloned_cache)                /* a cache root was copied to another machine and used there */ \
  X(follower_opened)             /* a database was opened to be followed */ \
  X(follower_waited)             /* wait_for() waited, and the follower got there */ \
  X(follower_too_stale)          /* a read was refused because of max_staleness */ \
  X(follower_killed_in_batch)    /* a follower was killed between a frame of its WAL and the index that shows it */ \
  X(follower_resumed)            /* … and its next life went on with the copy, without reading the stream anew */ \
  X(follower_wal_anew)           /* a follower's WAL began anew while connections had it open */ \
  X(follower_wal_anew_beside)    /* … while one of them was in a read transaction */ \
  X(follower_wal_kept)           /* … did not, because of a reader */ \
  X(follower_read_anew)          /* a follower read the stream anew, after a restore or a trim, under its readers */ \
  X(follower_ended)              /* a follower could not go on, and told so */ \
  X(follower_copy_read_beside)   /* another process read a follower's copy by plain SQLite */ \
  X(commit_of_parts)             /* a COMMIT of several parts answered */ \
  X(follower_saw_parts)          /* … and a follower showed one */ \
  X(standby_owns)                /* a standby became the owner, and wrote */ \
  X(standby_after_silence)       /* … because the owner had been silent for its term */ \
  X(standby_after_release)       /* … because the owner had ended in peace */ \
  X(standby_asked)               /* … because it was asked to */ \
  X(standby_refused)             /* a claim of a standby did not land: somebody lives */

enum class Sometime : std::uint8_t {
#define ONEPEN_SOMETIME(name) name,
  ONEPEN_SOMETIMES(ONEPEN_SOMETIME) ONEPEN_SQLITE_SOMETIMES(ONEPEN_SOMETIME)
#undef ONEPEN_SOMETIME
};
inline constexpr std::array kSometimes = {
#define ONEPEN_SOMETIME(name) std::string_view(#name),
    ONEPEN_SOMETIMES(ONEPEN_SOMETIME) ONEPEN_SQLITE_SOMETIMES(ONEPEN_SOMETIME)
#undef ONEPEN_SOMETIME
};
// The first of those that only runs with SQLite reach.
inline constexpr std::size_t kFirstSqliteSometime = static_cast<std::size_t>(Sometime::sqlite_opened);

class Sometimes {
 public:
  void reached(Sometime place) { ++counts_.at(static_cast<std::size_t>(place)); }
  void add(const Sometimes& other) {
    for (std::size_t i = 0; i < counts_.size(); ++i) counts_.at(i) += other.counts_.at(i);
  }
  std::uint64_t count(std::size_t i) const { return counts_.at(i); }
  std::array<std::uint64_t, kSometimes.size()>& counts() { return counts_; }

 private:
  std::array<std::uint64_t, kSometimes.size()> counts_{};
};

}  // namespace onepen::sim
