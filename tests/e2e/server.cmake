# The model server as a program over a fake model, asked by clients of Python's standard library.
add_executable(server_fake_model server_fake_model.cc)
longhaul_options(server_fake_model)
target_link_libraries(server_fake_model PRIVATE longhaul_engine)
if(Python3_FOUND)
  longhaul_script_test(e2e_server COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/server_test.py
    $<TARGET_FILE:server_fake_model> LABELS e2e DEPENDS server_fake_model TIMEOUT 180)
endif()
longhaul_test(e2e_deploy SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/server_deploy_test.cc LINKS longhaul_engine LABELS e2e)
if(TARGET e2e_deploy)
  target_compile_definitions(e2e_deploy PRIVATE LONGHAUL_SERVER_PROGRAM="$<TARGET_FILE:server_fake_model>")
  add_dependencies(e2e_deploy server_fake_model)
endif()
