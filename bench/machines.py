"""Network namespaces that stand for machines: each has eth0 and a control group."""
import contextlib
import os
import subprocess


def run(*command):
    subprocess.run(command, check=True)


class Machines:
    """Machines named by single letters, "a" first. Two are joined by a veth pair, more by a bridge.

    rate: of what each sends, as tc writes it; 64 KB and 2 ms of it may wait.
    loss: the share of packets that are lost on arrival. cores: of processor time that each may
    use, by a quota; machines on one core share it equally in any case. The pauses of a quota let
    memory go cold, and each costs 1 to 6 ms of processor time. A context manager."""

    def __init__(self, nodes="ab", mtu=1500, rate=None, loss=None, cores=None):
        self.prefix = f"millrace-bench-{os.getpid()}"
        self.names = {node: f"{self.prefix}-{node}" for node in nodes}
        self.switch = None
        self.groups = {}
        try:
            self.make(mtu, rate, loss)
            for name in self.names.values():
                self.make_group(name, cores)
        except BaseException:
            self.close()
            raise

    def make(self, mtu, rate, loss):
        names = list(self.names.values())
        for name in names:
            run("ip", "netns", "add", name)
        if len(names) == 2:
            run("ip", "-n", names[0], "link", "add", "eth0", "mtu", str(mtu), "type", "veth",
                "peer", "name", "eth0", "mtu", str(mtu), "netns", names[1])
        elif len(names) > 2:
            self.switch = f"{self.prefix}-switch"
            run("ip", "netns", "add", self.switch)
            run("ip", "-n", self.switch, "link", "add", "bridge", "mtu", str(mtu), "type", "bridge")
            run("ip", "-n", self.switch, "link", "set", "bridge", "up")
            for i, name in enumerate(names):
                run("ip", "-n", self.switch, "link", "add", f"port{i}", "mtu", str(mtu), "type",
                    "veth", "peer", "name", "eth0", "mtu", str(mtu), "netns", name)
                run("ip", "-n", self.switch, "link", "set", f"port{i}", "master", "bridge", "up")
        for i, name in enumerate(names):
            run("ip", "-n", name, "link", "set", "lo", "up")
            if len(names) > 1:
                self.make_interface(i, name, rate, loss)

    def make_interface(self, i, name, rate, loss):
        run("ip", "-n", name, "link", "set", "eth0", "address", mac_of(i))
        run("ip", "-n", name, "address", "add", f"{address_of(i)}/24", "dev", "eth0")
        run("ip", "-n", name, "link", "set", "eth0", "up")
        if rate:
            run("tc", "-n", name, "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", rate,
                "burst", "64kb", "latency", "2ms")
        if loss is not None:
            # Packet by packet, else batches of up to 64 KB are lost as one; at 0 as well, to
            # compare like with like.
            run("ip", "-n", name, "link", "set", "dev", "eth0", "gso_max_segs", "1")
        if loss:
            rules = ('table netdev loss {\nchain arriving {\n'
                     'type filter hook ingress device "eth0" priority 0\n'
                     f'numgen random mod 1000 < {round(loss * 1000)} drop\n}}\n}}\n')
            subprocess.run(("ip", "netns", "exec", name, "nft", "-f", "-"), check=True,
                           input=rules, text=True)

    def make_group(self, name, cores):
        unified = os.path.exists("/sys/fs/cgroup/cgroup.controllers")
        group = os.path.join("/sys/fs/cgroup" if unified else "/sys/fs/cgroup/cpu", name)
        try:
            os.mkdir(group)
        except OSError:  # in a container that may not; threads share the cores instead of machines
            if cores:
                raise
            return
        self.groups[name] = group
        if not cores:
            return
        period = 10000  # microseconds: short, so that a machine does not stand still for long
        quota = int(period * cores)
        settings = ({"cpu.max": f"{quota} {period}"} if unified else
                    {"cpu.cfs_period_us": period, "cpu.cfs_quota_us": quota})
        for setting, value in settings.items():
            with open(os.path.join(group, setting), "w") as file:
                file.write(str(value))

    def processes_of(self, node):
        """The file to which a process of this machine writes its number before it begins."""
        group = self.groups.get(self.names[node])
        return os.path.join(group, "cgroup.procs") if group else os.devnull

    def close(self):
        for group in self.groups.values():
            with contextlib.suppress(OSError):  # a process of it goes on
                os.rmdir(group)
        for name in [*self.names.values(), *([self.switch] if self.switch else ())]:
            subprocess.run(("ip", "netns", "del", name), check=False, stderr=subprocess.DEVNULL)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def start(self, node, *command, **streams):
        # The group is joined before /sys is another one.
        return subprocess.Popen(
            ("sh", "-c", f'echo $$ > {self.processes_of(node)} && exec "$@"', "sh",
             "ip", "netns", "exec", self.names[node], *command), **streams)


def address_of(i):
    return f"10.97.0.{i + 1}"


def core_of(i):
    """The start of a command that runs on core `i`, where there are several: one for each machine."""
    cores = sorted(os.sched_getaffinity(0))
    return ("taskset", "-c", str(cores[i % len(cores)])) if len(cores) > 1 else ()


def mac_of(i):
    return f"02:00:00:97:00:{i + 1:02x}"


def write_topology(path, nodes, fields):
    """A cluster of these machines with one segment, "lan"."""
    with open(path, "w") as file:
        file.write(f'name: "bench-{os.getpid()}"\n')
        for i, node in enumerate(nodes):
            file.write(f'node {{ name: "{node}" address: "{address_of(i)}" interface: "eth0" '
                       f'mac: "{mac_of(i)}" }}\n')
        file.write(f'segment {{ name: "lan" {fields} }}\n')
    return path
