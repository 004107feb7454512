if(Python3_FOUND)
  longhaul_script_test(e2e_day_one COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/day_one_test.py
    $<TARGET_FILE:longhaul> ${CMAKE_SOURCE_DIR} LABELS e2e DEPENDS longhaul longhaul-worker longhaul-engine
    PROCESSORS 3 TIMEOUT 300)
endif()
