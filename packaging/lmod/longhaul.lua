-- Lmod module of Longhaul. Put it (or a link to it) into a folder of MODULEPATH as longhaul/VERSION.lua and set `prefix` to
-- the folder that the tarball was unpacked into; docs/install.md has the lines. Tcl modules: set PATH alone, it is all there is.
help([[
Longhaul takes raw text to a deployed language model: longhaul --help, longhaul doctor.
The Open MPI inside is used until a module of Open MPI 4 or 5 is loaded as well.
]])
whatis("Name: longhaul")
whatis("Description: raw text to a deployed language model on a Slurm cluster")

-- Beside this file when it is used from within the tarball: <prefix>/share/longhaul/packaging/lmod/longhaul.lua
local prefix = os.getenv("LONGHAUL_PREFIX") or pathJoin(myFileName():match("(.*)/"), "../../../..")
if not isDir(pathJoin(prefix, "share/longhaul/site-configs")) then
  LmodError("longhaul: " .. prefix .. " is no installation of Longhaul; set `prefix` in " .. myFileName())
end
prepend_path("PATH", pathJoin(prefix, "bin"))
setenv("LONGHAUL_PREFIX", prefix)
conflict("longhaul")
