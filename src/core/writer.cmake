set(writer_sources writer.cc writer_claim.cc writer_append.cc writer_decide.cc writer_reset.cc writer_withdraw.cc group_commit.cc)
