onepen_unit_test(writer_scenario_test
  SOURCES writer_scenario_test.cc ${PROJECT_SOURCE_DIR}/tests/support/scenario.cc
  DEPS core EXTERNAL fmt::fmt LABELS fast)
if(TARGET writer_scenario_test)
  target_include_directories(writer_scenario_test PRIVATE ${PROJECT_SOURCE_DIR}/tests)
endif()
onepen_unit_test(group_commit_test SOURCES group_commit_test.cc DEPS core LABELS fast)
if(rapidcheck_FOUND)
  onepen_unit_test(writer_property_test SOURCES writer_property_test.cc DEPS core EXTERNAL rapidcheck LABELS fast)
endif()
