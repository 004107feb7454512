if(Python3_FOUND)
  longhaul_script_test(e2e_trust COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/trust_test.py
    $<TARGET_FILE:longhaul> ${CMAKE_SOURCE_DIR} LABELS e2e DEPENDS longhaul longhaul-worker longhaul-engine
    PROCESSORS 2 TIMEOUT 180)
endif()
