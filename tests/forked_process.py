"""A worker process of a study as a copy of this process: a new one takes seconds to import the package."""

import os
import signal
import sys


class ForkedWorker:
    """Replaces `subprocess.Popen` in majority.run.study.workers."""

    def __init__(self, command, env, stdin, stdout, stderr):
        from majority.run.study.workers import run_worker

        (orders, to_worker), (from_worker, answers) = os.pipe(), os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid, self.returncode = os.fork(), None
        if self.pid == 0:
            for number, file in enumerate((orders, answers, stderr.fileno())):
                os.dup2(file, number)
            os.closerange(3, 1_024)  # those of other workers: they wait for the end of their orders
            os.environ.clear()
            os.environ.update(env)
            sys.stdin, sys.stderr = open(0), open(2, "w")  # noqa: SIM115
            sys.stdout = sys.stderr
            run_worker()
            os._exit(0)
        os.close(orders)
        os.close(answers)
        self.stdin, self.stdout = open(to_worker, "wb"), open(from_worker, "rb")  # noqa: SIM115

    def poll(self):
        return self._wait(os.WNOHANG)

    def wait(self):
        return self._wait(0)

    def kill(self):
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)

    def _wait(self, options):
        if self.returncode is None:
            ended, status = os.waitpid(self.pid, options)
            self.returncode = os.waitstatus_to_exitcode(status) if ended else None
        return self.returncode
