if(Python3_FOUND)
  longhaul_script_test(e2e_text_beat COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/text_beat_test.py
    $<TARGET_FILE:longhaul> ${CMAKE_SOURCE_DIR} LABELS e2e DEPENDS longhaul longhaul-worker PROCESSORS 1 TIMEOUT 240)
endif()
