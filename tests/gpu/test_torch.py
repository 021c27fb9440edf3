"""PyTorch on our pools, on a GPU. A process has one allocator, so each test is a program of its own, run here and judged by what it prints;
programs that compare run both ways. Where PyTorch is not there, tests/gpu/run.py says so."""

import json
import subprocess
import sys
import textwrap

import pytest

_OURS = "from forebay.adapters import torch as adapter\nadapter.install({})\n"
_TRAINING = """
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Embedding(500, 256), *[torch.nn.TransformerEncoderLayer(256, 4, 512, dropout=0.1,
        batch_first=True) for _ in range(3)], torch.nn.Linear(256, 500)).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    lengths = torch.Generator().manual_seed(2)
    losses = []
    for step in range(40):
        batch, length = (int(torch.randint(1, most, (), generator=lengths)) for most in (17, 129))
        tokens = torch.randint(0, 500, (batch, length + 1), generator=lengths).cuda()
        loss = torch.nn.functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item().hex())
    sums = [p.double().sum().item().hex() for p in model.parameters()]
    print(json.dumps([losses, sums]))
"""


def program(text: str, ours: str | None = "") -> str:
    """What it prints; `ours` are the arguments of install(), None is PyTorch's own allocator."""
    start = "import json, os\nos.environ['CUBLAS_WORKSPACE_CONFIG'] = ':4096:8'\nimport torch\n"
    code = start + ("" if ours is None else _OURS.format(ours)) + textwrap.dedent(text)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_training_gives_the_same_losses_and_weights_bit_for_bit():
    control, again = json.loads(program(_TRAINING, None)), json.loads(program(_TRAINING, None))
    assert control == again
    for settings in ("", "growth='segments'"):
        assert json.loads(program(_TRAINING, settings)) == control


@pytest.mark.parametrize("recorded", [True, False])
def test_a_copy_on_another_stream_reads_its_tensor_when_the_stream_is_recorded(recorded):
    """Field report C2: the tensor goes while the copy on the other stream is still to come."""
    said = program(f"""
        side, wrong = torch.cuda.Stream(), 0
        back = torch.empty(1 << 22, dtype=torch.uint8, pin_memory=True)
        for i in range(20):
            x = torch.full((1 << 22,), 7, dtype=torch.uint8, device="cuda")
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                torch.cuda._sleep(2_000_000)
                back.copy_(x, non_blocking=True)
            if {recorded}:
                x.record_stream(side)
            del x
            y = torch.full((1 << 22,), 9, dtype=torch.uint8, device="cuda")
            torch.cuda.synchronize()
            wrong += int((back != 7).any())
            del y
        print(wrong, adapter.figures()["pools"]["torch"]["allocated"])
    """)
    wrong, allocated = map(int, said.split())
    assert (wrong == 0) is recorded
    assert allocated <= 1 << 22


def test_graphs_replay_right_a_thousand_times_while_the_pool_churns():
    said = program("""
        torch.manual_seed(0)
        net = torch.nn.Sequential(*[torch.nn.Linear(256, 256), torch.nn.GELU()] * 4).cuda().eval()
        shapes = [1, 3, 8, 20]
        graphs, pool = [], None
        with torch.no_grad():
            for n in shapes:
                x = torch.randn(n, 256, device="cuda")
                side = torch.cuda.Stream()
                side.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(side):
                    net(x)
                torch.cuda.current_stream().wait_stream(side)
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph, pool=pool):
                    y = net(x)
                pool = pool or graph.pool()
                graphs.append((graph, x, y))
            held, wrong = [], 0
            for replay in range(1000):
                graph, x, y = graphs[replay % len(graphs)]
                x.normal_()
                held.append(torch.full((1 + replay * 7919 % 3_000_000,), float("nan"), device="cuda"))
                if len(held) > 8:
                    held.pop(replay % 8)
                graph.replay()
                if replay % 5 == 0:
                    wrong += not torch.equal(y, net(x))
        names = sorted(adapter.figures()["pools"])
        del graphs, graph, x, y
        import gc; gc.collect(); torch.cuda.synchronize()
        torch._C._cuda_clearCublasWorkspaces()  # they were allocated in the captures, and live as long as cuBLAS
        print(json.dumps([wrong, names, sorted(adapter.figures()["pools"]), adapter._library().walk(0)]))
    """)
    wrong, before, after, broken = json.loads(said)
    assert (wrong, broken) == (0, "")
    assert [name.split()[0] for name in before] == ["graph", "torch"]
    assert after == ["torch"]


def test_a_capture_survives_another_thread_that_misses():
    said = program("""
        import threading
        stop, failed = threading.Event(), []
        def churn():
            stream = torch.cuda.Stream()
            with torch.cuda.stream(stream):
                n = 1
                while not stop.is_set():
                    try:
                        torch.empty(n % 50 << 20, dtype=torch.uint8, device="cuda")
                    except Exception as error:
                        failed.append(str(error)); return
                    n += 7
        x = torch.ones(1 << 20, device="cuda")
        x * 2
        torch.cuda.synchronize()
        thread = threading.Thread(target=churn); thread.start()
        for _ in range(30):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                y = x
                for _ in range(20):
                    y = y * 1.5
            graph.replay(); torch.cuda.synchronize()
            assert abs(y[0].item() / 1.5**20 - 1) < 1e-5
        stop.set(); thread.join()
        print(failed)
    """)
    assert said.strip() == "[]"


def test_no_memory_is_pytorch_s_exception_and_the_program_goes_on():
    said = program(
        """
        kept = [torch.empty(16 << 20, dtype=torch.uint8, device="cuda") for _ in range(3)]
        try:
            torch.empty(64 << 20, dtype=torch.uint8, device="cuda")
        except torch.OutOfMemoryError as error:
            print(type(error).__name__, str(error).splitlines()[0])
        del kept
        print(torch.ones(48 << 18, device="cuda").sum().item() == 48 << 18)
        """,
        "limit='64MiB'",
    ).splitlines()
    assert said[0].startswith("OutOfMemoryError CUDA out of memory. Tried to allocate 64.0 MiB. forebay pool torch of device 0")
    assert said[1] == "True"


def test_a_memory_fraction_and_an_emptied_cache_are_ours():
    said = program("""
        torch.cuda.set_per_process_memory_fraction(0.001)
        try:
            torch.empty(200 << 20, dtype=torch.uint8, device="cuda")
        except torch.OutOfMemoryError as error:
            print("limit" in str(error))
        x = torch.empty(50 << 20, dtype=torch.uint8, device="cuda")
        del x
        before = adapter.figures()["reserved"]
        torch.cuda.empty_cache()
        print(before >= 50 << 20, adapter.figures()["reserved"])
    """)
    assert said.split() == ["True", "True", "0"]


@pytest.mark.parametrize("ours", ["", None])
def test_a_consumer_has_its_pool_under_our_allocator_and_under_pytorch_s(ours):
    said = program(
        """
        from forebay.adapters import torch as adapter
        first = torch.ones(1 << 20, device="cuda")
        with adapter.pool("kv", limit="1GiB"):
            cache = torch.full((64, 1 << 20), 3.0, device="cuda")
        after = torch.ones(1 << 20, device="cuda")
        kv = adapter.figures()["pools"]["kv"]
        try:
            with adapter.pool("kv", limit="1GiB"):
                torch.empty(2 << 30, dtype=torch.uint8, device="cuda")
        except torch.OutOfMemoryError:
            print("refused")
        print(kv["allocated"] >> 20, cache.sum().item() == 3 * 64 * 2**20, (first + after).sum().item() == 2**21)
        """,
        ours,
    )
    assert said.split() == ["refused", "256", "True", "True"]


def test_an_exportable_tensor_can_be_opened_by_another_process_and_an_ordinary_one_says_so():
    said = program("""
        import ctypes
        cuda = ctypes.CDLL("libcuda.so.1")
        def exported(tensor):
            return cuda.cuIpcGetMemHandle(ctypes.create_string_buffer(64), ctypes.c_uint64(tensor.data_ptr()))
        ordinary = torch.ones(1 << 20, device="cuda")
        with adapter.exportable():
            tensor = torch.ones(1 << 20, device="cuda")
        print(exported(tensor), exported(ordinary) != 0)
    """)
    assert said.split() == ["0", "True"]


def test_a_forked_child_is_refused_clearly_and_the_parent_goes_on():
    said = program("""
        import sys
        x = torch.ones(1 << 20, device="cuda")
        library = adapter._library()
        sys.stdout.flush()
        reader, writer = os.pipe()
        if os.fork() == 0:
            try:
                library.alloc(512, 0, 0)
            except Exception as error:
                os.write(writer, f"{type(error).__name__}: {error}\\n".encode())
            try:
                torch.ones(1, device="cuda")
            except Exception as error:
                os.write(writer, f"{type(error).__name__}: {str(error).splitlines()[0]}\\n".encode())
            library.free(x.data_ptr(), 0)
            os._exit(0)
        os.close(writer)
        os.wait()
        print(os.read(reader, 4000).decode(), end="")
        print((x + torch.ones(1 << 20, device="cuda")).sum().item() == 2**21)
    """).splitlines()
    assert "this process was forked after CUDA began: start it with spawn" in said[0]
    assert "fork" in said[1]
    assert said[2] == "True"


def test_autograd_threads_and_many_streams_share_it():
    said = program("""
        import threading
        results = []
        def work(seed):
            torch.manual_seed(seed)
            stream = torch.cuda.Stream()
            with torch.cuda.stream(stream):
                generator = torch.Generator("cuda").manual_seed(seed)
                w = torch.randn(512, 512, device="cuda", generator=generator, requires_grad=True)
                for n in range(1, 60):
                    x = torch.randn(n * 8, 512, device="cuda", generator=generator)
                    (x @ w).relu().sum().backward()
                stream.synchronize()
                results.append((seed, w.grad.double().sum().item().hex()))
        def run():
            results.clear()
            threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
            for t in threads: t.start()
            for t in threads: t.join()
            return sorted(results)
        first, second = run(), run()
        print(len(first), first == second, adapter._library().walk(0) == "")
    """)
    assert said.split() == ["8", "True", "True"]


@pytest.mark.parametrize(
    ("before", "words"),
    [
        ("torch.ones(1, device='cuda')", "call it before CUDA is first used"),
        ("torch.backends.cudnn.benchmark = True", "torch.backends.cudnn.benchmark = False"),
        ("adapter.install()", "call it once"),
        ("torch.__version__ = '2.4.1'", "none that this version knows"),
    ],
)
def test_what_cannot_work_is_refused_in_one_line(before, words):
    said = program(
        f"""
        from forebay.adapters import torch as adapter
        {before}
        try:
            adapter.install()
        except Exception as error:
            print(type(error).__name__, error)
        """,
        None,
    )
    assert said.startswith("NotSupported install: ")
    assert words in said
    assert said.count("\n") == 1


_STASHED = """
    side, main = torch.cuda.Stream(), torch.cuda.current_stream()
    back = torch.empty(1 << 22, dtype=torch.uint8, pin_memory=True)
    def stash():
        x = torch.full((1 << 22,), 7, dtype=torch.uint8, device="cuda")
        side.wait_stream(main)
        with torch.cuda.stream(side):
            torch.cuda._sleep(20_000_000)
            back.copy_(x, non_blocking=True)
        {middle}
        del x
    stash()
    torch.cuda.synchronize()
    try:
        torch.ones(8, device="cuda")
        adapter.check()
        print("silent")
    except Exception as error:
        print(type(error).__name__, error)
"""


def test_a_missing_record_stream_is_named_with_block_free_and_reader():
    """Field report C2, under an unmodified program."""
    said = program(_STASHED.format(middle=""), "debug=True")
    assert said.startswith("RuntimeError pool torch: copy_.default on stream ")
    lines = {int(part.split()[0]) for part in said.replace(",", " ").split("<string>:")[1:]}
    assert len(lines) == 3, said
    assert "still used a block that was freed: 4.0 MiB" in said
    assert said.count("(stash)") == 3


@pytest.mark.parametrize("middle", ["x.record_stream(side)", "main.wait_stream(side)", "side.synchronize()", "back.copy_(x)"])
def test_ordered_frees_are_accused_of_nothing(middle):
    if middle == "back.copy_(x)":
        middle = "side.synchronize(); y = x.cpu()"
    assert program(_STASHED.format(middle=middle), "debug=True").strip() == "silent"


def test_a_write_after_the_free_and_one_beyond_a_block_are_named():
    said = program(
        """
        import ctypes
        cuda = ctypes.CDLL("libcuda.so.1")
        def poke(address):
            torch.cuda.synchronize()
            assert cuda.cuMemsetD8_v2(ctypes.c_uint64(address), ctypes.c_ubyte(1), ctypes.c_size_t(4)) == 0
        x, y = (torch.ones(n, dtype=torch.uint8, device="cuda") for n in (1000, 5000))
        freed = y.data_ptr()
        poke(x.data_ptr() + 1000)
        del y
        poke(freed + 16)
        try:
            adapter.check()
        except Exception as error:
            print(error)
        for report in adapter.reports():
            print(report)
        """,
        "debug=True",
    )
    assert "was overrun, first 1 bytes beyond its end" in said
    assert "was written after that, at byte 16" in said
    assert "<string>:" in said


def test_training_in_debug_mode_computes_the_same_and_is_accused_of_nothing():
    judged = _TRAINING.replace("print(json", "adapter.check(); print(json").replace("range(40)", "range(6)")
    control = json.loads(program(_TRAINING.replace("range(40)", "range(6)"), None))
    assert json.loads(program(judged, "debug=True")) == control
