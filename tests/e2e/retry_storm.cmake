if(Python3_FOUND)
  longhaul_script_test(e2e_retry_storm COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/retry_storm_test.py
    $<TARGET_FILE:longhaul> ${CMAKE_SOURCE_DIR} LABELS e2e DEPENDS longhaul longhaul-worker longhaul-engine TIMEOUT 240)
endif()
