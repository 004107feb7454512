# Spack recipe: spack repo add packaging/spack; spack dev-build longhaul@0.1.0 in a checkout (there is no archive to fetch yet).
from spack.package import *


class Longhaul(CMakePackage, CudaPackage):
    """Takes raw text to a deployed language model on a Slurm cluster."""

    version("0.1.0")

    # Off: not every release of Spack has gumbo and CLD2; without them the stage kind `curate` says that it is not built.
    variant("curate", default=False, description="HTML, languages and normalization: ICU, gumbo, CLD2")
    variant("slurm", default=False, description="the helper longhaul-slurm, which links the site's libslurm")
    variant("stacks", default=True, description="native stacks of ranks that hang, by libdw")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconfig", type="build")

    depends_on("mpi")
    depends_on("onednn@2.6:2")
    depends_on("fmt@9:")
    depends_on("spdlog@1.10: +fmt_external")
    depends_on("nlohmann-json@3.11:")
    depends_on("tomlplusplus@3.3:")
    depends_on("libyaml@0.2.5:")
    depends_on("cli11@2:")
    depends_on("eigen@3.3:3")
    depends_on("cpp-httplib@0.11:")
    depends_on("xxhash@0.8:")
    depends_on("zlib-api")
    depends_on("openssl@1.1.1:")
    depends_on("sqlite@3.35:")
    depends_on("curl@7.85:")
    depends_on("pcre2@10.36:")
    depends_on("icu4c@67:", when="+curate")
    depends_on("gumbo-parser@0.10:", when="+curate")
    depends_on("cld2", when="+curate")
    # Documents packed by these are read beside those packed by gzip.
    depends_on("bzip2", when="+curate")
    depends_on("xz", when="+curate")
    depends_on("zstd", when="+curate")
    depends_on("slurm", when="+slurm")
    depends_on("elfutils", when="+stacks")
    depends_on("cuda@12:", when="+cuda")
    depends_on("nccl", when="+cuda")

    conflicts("%gcc@:11", msg="C++20 of GCC 12 or newer is needed")
    generator("ninja")

    def cmake_args(self):
        args = [
            self.define("LONGHAUL_TESTS", False),
            self.define("LONGHAUL_CUDA", "ON" if self.spec.satisfies("+cuda") else "OFF"),
            self.define_from_variant("LONGHAUL_LIBDW", "stacks"),
            self.define("CMAKE_UNITY_BUILD", True),
            self.define("CMAKE_UNITY_BUILD_BATCH_SIZE", 12),
        ]
        if self.spec.satisfies("+cuda"):
            architectures = self.spec.variants["cuda_arch"].value
            if "none" not in architectures:
                args.append(self.define("LONGHAUL_CUDA_ARCHITECTURES", ";".join(architectures)))
        return args
