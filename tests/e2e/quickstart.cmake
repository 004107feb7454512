# What the quickstart asks and how it checks answers; no model is trained.
if(Python3_FOUND)
  longhaul_script_test(e2e_quickstart_data COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/quickstart_data_test.py
    $<TARGET_FILE:longhaul> ${CMAKE_SOURCE_DIR} LABELS e2e DEPENDS longhaul PROCESSORS 2 TIMEOUT 60)
endif()
