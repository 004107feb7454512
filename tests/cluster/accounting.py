"""Accounting for tests/cluster/cluster: slurmdbd, and a MariaDB of its own for it, below the cluster's state folder.

The database listens on a socket in that folder only, and keeps no accounts: whoever may open the folder may read it.
"""
import os
import shutil
import signal
import socket

from processes import Process, Unavailable, daemon, last_lines, run, wait_for

PROGRAMS = ("slurmdbd", "mariadbd", "mariadb-install-db", "sacctmgr")
SMALL = ("--innodb-buffer-pool-size=16M", "--innodb-log-file-size=8M", "--innodb-lock-wait-timeout=900")


class Accounting:
    def __init__(self, cluster):
        self.cluster, self.state = cluster, cluster.state
        self.folder = self.state / "db"
        self.database = Process(cluster.run_folder / "mariadbd.started", self.state)
        self.daemon = Process(cluster.run_folder / "slurmdbd.started", self.state)

    @staticmethod
    def check_machine():
        if missing := [name for name in PROGRAMS if not shutil.which(name)]:
            raise Unavailable(f"not installed: {' '.join(missing)}; run `scripts/install-packages cluster`")

    def port(self):
        return 18000 + self.cluster.net

    def slurm_settings(self):
        return {"AccountingStorageType": "accounting_storage/slurmdbd", "AccountingStoragePort": self.port(),
                "AccountingStorageHost": self.cluster.machine_address(), "AccountingStoreFlags": "job_comment",
                "AccountingStoragePass": self.cluster.munge_socket()}

    def start(self):
        """Before slurmctld, which asks for its cluster."""
        self.write_files()
        self.start_database()
        self.start_daemon()
        name = f"longhaul{self.cluster.net}"
        for arguments in (("cluster", name), ("account", "project"), ("user", "root", "account=project")):
            self.cluster.slurm("sacctmgr", "-i", "add", *arguments)

    def write_files(self):
        settings = {
            "DbdHost": socket.gethostname().split(".")[0], "DbdAddr": self.cluster.machine_address(), "DbdPort": self.port(),
            "SlurmUser": "root", "AuthType": "auth/munge", "AuthInfo": f"socket={self.cluster.munge_socket()}",
            "LogFile": self.cluster.log / "slurmdbd.log", "PidFile": self.cluster.run_folder / "slurmdbd.pid",
            "StorageType": "accounting_storage/mysql", "StorageHost": "localhost", "StorageUser": "root",
            "StorageLoc": "slurm_acct_db",
        }
        file = self.state / "slurmdbd.conf"  # beside slurm.conf: slurmdbd looks for it there
        file.touch(0o600)
        file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))

    def start_database(self):
        where = ["--no-defaults", "--user=root", f"--datadir={self.folder}/data", *SMALL]
        run("mariadb-install-db", *where, "--skip-test-db", "--skip-name-resolve", seconds=60)
        daemon(["mariadbd", *where, "--skip-networking", f"--socket={self.folder}/socket", "--skip-grant-tables",
                f"--pid-file={self.folder}/pid"], self.database.pid_file, self.cluster.log / "mariadbd.out")
        wait_for(lambda: (self.folder / "socket").exists() or not self.database.pid(), 30, "the database's socket")
        self.require(self.database, "mariadbd")

    def start_daemon(self):
        # slurmdbd takes no path; the name that it is called by says whose it is.
        daemon(["bash", "-c", f"exec -a {self.state}/slurmdbd slurmdbd -D"], self.daemon.pid_file,
               self.cluster.log / "slurmdbd.out",
               environment={**os.environ, **self.cluster.environment(), "MYSQL_UNIX_PORT": f"{self.folder}/socket"})
        wait_for(lambda: self.answers() or not self.daemon.pid(), 30, "an answer of slurmdbd")
        self.require(self.daemon, "slurmdbd")

    def require(self, process, name):
        if not process.pid():
            raise Unavailable(f"{name} has ended: {last_lines(self.cluster.log / f'{name}.out')}")

    def answers(self):
        try:
            socket.create_connection((self.cluster.machine_address(), self.port()), 1).close()
        except OSError:
            return False
        return True

    def stop_daemon(self):
        self.daemon.send(signal.SIGCONT)
        self.daemon.end(signal.SIGTERM, 30)

    def down(self):
        self.stop_daemon()
        self.database.end(signal.SIGTERM, 30)
        shutil.rmtree(self.folder, ignore_errors=True)  # what stays in the state folder are logs
