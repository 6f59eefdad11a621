"""Golden cases of attention, rope, selective_scan and gated_delta_rule (see make_op_goldens.py)."""
import math

import numpy as np
import torch
import torch.nn.functional as F

from op_goldens import KIND, Random, add, d, f32


# ---- attention ----

class Attend:
    """Scores in the plainest way: loops over items and heads, torch's softmax."""

    def __init__(self, heads, kv_heads, scale, **kw):
        self.h, self.kv, self.scale, self.kw = heads, kv_heads, scale, kw

    def item(self, q, k, v, q_pos, k_pos, mask=None, index=0):
        kw = self.kw
        q = d(q).reshape(len(q), self.h, -1).transpose(0, 1)
        k = d(k).reshape(len(k), self.kv, -1).transpose(0, 1).repeat_interleave(self.h // self.kv, 0)
        v = d(v).reshape(len(v), self.kv, -1).transpose(0, 1).repeat_interleave(self.h // self.kv, 0)
        s = self.scale * (q @ k.transpose(1, 2))
        if kw.get("softcap"):
            s = kw["softcap"] * torch.tanh(s / kw["softcap"])
        ahead = k_pos[None, :].long() - q_pos[:, None].long()
        if "bias" in kw:
            s = s + kw["bias"](index, ahead, q, k, s)
        seen = torch.ones_like(ahead, dtype=torch.bool)
        if kw.get("causal"):
            seen &= ahead <= 0
        if kw.get("left", -1) >= 0:
            seen &= -ahead <= kw["left"]
        if kw.get("right", -1) >= 0:
            seen &= ahead <= kw["right"]
        if mask is not None:
            seen &= mask[None, :] != 0
        s = s.masked_fill(~seen, -math.inf)
        if "sinks" in kw:
            sink = d(kw["sinks"])[:, None, None].expand(self.h, s.shape[1], 1)
            p = torch.softmax(torch.cat([s, sink], 2), 2)[:, :, :-1]
        else:
            p = torch.softmax(s, 2)
        p = torch.nan_to_num(p, nan=0.0)  # rows that see nothing
        return (p @ v).transpose(0, 1).reshape(q.shape[1], -1), p

    def run(self, q, k, v, q_len, k_len, q_pos=None, k_pos=None, mask=None, width=None):
        out, probs = [], []
        a = b = 0
        for i, (n, m) in enumerate(zip(q_len, k_len)):
            qp = torch.arange(n) if q_pos is None else q_pos[a:a + n]
            kp = torch.arange(m) if k_pos is None else k_pos[b:b + m]
            if not n:
                b += m
                continue
            y, p = self.item(q[a:a + n], k[b:b + m], v[b:b + m], qp, kp, None if mask is None else mask[b:b + m], i)
            out.append(y)
            if width:
                full = torch.zeros(self.h, n, width, dtype=torch.float64)
                full[:, :, :m] = p
                probs.append(full)
            a, b = a + n, b + m
        return torch.cat(out), torch.cat(probs, 1) if probs else None


def attention_cases():
    ragged, none = [{"ragged": True}], -1

    def simple(name, heads, kv, dk, dv, lens, attrs=None, q_pos=False, extra=None, probs=None, seed=None, **kw):
        r = Random("attention" + (seed or name))
        t = sum(lens)
        q, k, v = r.f(t, heads * dk), r.f(t, kv * dk), r.f(t, kv * dv)
        scale = f32(1 / math.sqrt(dk)) if "scale" not in (attrs or {}) else attrs["scale"]
        pos = None
        if q_pos:
            pos = torch.cat([torch.from_numpy(np.sort(r.g.choice(3 * n, n, replace=False)).astype(np.int32)) for n in lens])
        a = {"heads": heads, "kv_heads": kv, "scale": scale, "q_space": 0, "kv_space": 0, **(attrs or {})}
        y, p = Attend(heads, kv, scale, **kw).run(q, k, v, lens, lens, pos, pos, width=t if probs else None)
        ops = [q, k, v, None, pos, pos] if q_pos else [q, k, v]
        roles = "iii-ii" if q_pos else "iii"
        sp = [0, 0, 0, none, 0, 0] if q_pos else [0, 0, 0]
        for at, value, role in extra or []:
            ops += [None] * (at + 1 - len(ops))
            roles += "-" * (at + 1 - len(roles))
            sp += [none] * (at + 1 - len(sp))
            ops[at], roles = value, roles[:at] + role + roles[at + 1:]
        outs = [y]
        if probs:
            a["probs"] = probs
            outs.append(p[probs])
        add("ATTENTION", name, ops, outs, a, roles, spaces=ragged, space=sp, lengths={0: lens})

    simple("plain", 3, 3, 8, 8, [5, 1, 9])
    simple("one", 2, 2, 16, 16, [1])
    simple("empty_item", 2, 2, 8, 8, [3, 0, 4])
    simple("long", 2, 1, 32, 32, [70, 130, 3])
    simple("gqa", 6, 2, 10, 10, [4, 7, 2], {"causal": 1}, causal=True)
    simple("dv_differs", 4, 2, 12, 20, [6, 3, 5], {"causal": 1}, causal=True)
    simple("window", 2, 2, 8, 8, [12, 5, 20], {"window_left": 3, "window_right": 2}, left=3, right=2)
    simple("window_causal_pos", 2, 1, 8, 8, [12, 5, 9], {"causal": 1, "window_left": 7}, q_pos=True, causal=True, left=7)
    simple("softcap", 3, 3, 8, 8, [6, 4], {"softcap": 2.5, "scale": 0.75}, softcap=2.5)
    r = Random("sinks")
    sinks = r.f(4, scale=2)
    simple("sinks", 4, 2, 8, 8, [6, 4, 1], {"causal": 1}, extra=[(7, sinks, "w")], causal=True, sinks=sinks)
    simple("probs", 4, 2, 8, 8, [6, 4, 3], {"causal": 1}, probs=[2, 0], causal=True)

    from transformers.models.t5.modeling_t5 import T5Attention
    for name, bidirectional, buckets, distance in (("t5_bidirectional", True, 32, 128), ("t5_unidirectional", False, 32, 128), ("t5_small", True, 8, 20)):
        w = Random(name).f(buckets, 4)
        bias = lambda i, ahead, q, k, s: d(w)[T5Attention._relative_position_bucket(ahead, bidirectional, buckets, distance)].permute(2, 0, 1)
        key = "t5_bidirectional" if bidirectional else "t5_unidirectional"
        simple(name, 4, 4, 8, 8, [150, 3, 40] if buckets == 32 else [30, 5], {"bias_kind": KIND["BIAS", key], "num_buckets": buckets, "max_distance": distance, "scale": 1.0,
               "causal": int(not bidirectional)}, extra=[(3, w, "w")], bias=bias, causal=not bidirectional)
    slopes = torch.tensor([0.5, 0.25, 0.125, 0.0625])
    simple("alibi", 4, 4, 8, 8, [9, 4], {"bias_kind": KIND["BIAS", "alibi"], "causal": 1}, q_pos=True, extra=[(3, slopes, "w")], causal=True,
           bias=lambda i, ahead, q, k, s: d(slopes)[:, None, None] * ahead[None].double())

    # fixed spaces: windows with a dense bias that repeats every `period` items
    r = Random("dense")
    for name, shape, period, items, sq, sk in (("dense", (2, 3, 5, 7), 2, 5, 5, 7), ("dense_heads", (1, 3, 5, 5), 1, 4, 5, 5), ("dense_mask", (3, 1, 1, 6), 3, 3, 4, 6)):
        b = r.f(*shape)
        if name == "dense_mask":
            b = torch.where(b > 0.3, -math.inf, 0.0).float()
            b[:, :, :, 0] = 0
        q, k, v = r.f(items * sq, 3 * 8), r.f(items * sk, 3 * 8), r.f(items * sk, 3 * 8)
        fn = lambda i, ahead, q_, k_, s: d(b)[i % period].expand(3, sq, sk)
        y, _ = Attend(3, 3, 0.25, bias=fn).run(q, k, v, [sq] * items, [sk] * items)
        add("ATTENTION", name, [q, k, v, b], [y], {"heads": 3, "kv_heads": 3, "scale": 0.25, "bias_kind": KIND["BIAS", "dense"], "bias_period": period, "q_space": 0, "kv_space": 1},
            "iiii", spaces=[{"rows": sq, "items": items}, {"rows": sk, "items": items}], space=[0, 1, 1, -1])

    # cross attention: ragged queries over fixed keys, and a key mask (DETR's pixel mask) with an item that sees nothing
    q, k, v = r.f(11, 2 * 8), r.f(3 * 6, 2 * 8), r.f(3 * 6, 2 * 8)
    mask = torch.tensor([1, 1, 1, 1, 0, 0, 0, 1, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0], dtype=torch.int32)
    y, _ = Attend(2, 2, 0.3).run(q, k, v, [4, 5, 2], [6] * 3, mask=mask)
    add("ATTENTION", "cross_mask", [q, k, v, None, None, None, mask], [y], {"heads": 2, "kv_heads": 2, "scale": 0.3, "q_space": 0, "kv_space": 1}, "iii---i",
        spaces=[{"ragged": True}, {"rows": 6, "items": 3}], space=[0, 1, 1, -1, -1, -1, 1], lengths={0: [4, 5, 2]})

    deberta_cases()
    state_attention_cases()


def deberta_cases():
    """transformers' own DisentangledSelfAttention, one sequence at a time."""
    from transformers.models.deberta_v2.configuration_deberta_v2 import DebertaV2Config
    from transformers.models.deberta_v2.modeling_deberta_v2 import DisentangledSelfAttention
    hidden, heads = 20, 2
    for name, kinds, buckets, longest in (("deberta_c2p_p2c", ["c2p", "p2c"], 8, 32), ("deberta_c2p", ["c2p"], 8, 24), ("deberta_p2c", ["p2c"], -1, 12), ("deberta_plain", ["p2c", "c2p"], -1, 12)):
        r = Random(name)
        config = DebertaV2Config(hidden_size=hidden, num_attention_heads=heads, relative_attention=True, pos_att_type=kinds, position_buckets=buckets,
                                 max_relative_positions=longest, share_att_key=True, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
        layer = DisentangledSelfAttention(config).double().eval()
        with torch.no_grad():
            for p in layer.parameters():
                p.copy_(d(r.f(*p.shape, scale=0.4)))
        span = layer.pos_ebd_size
        table_ = d(r.f(2 * span, hidden))
        lens = [50, 7, 1] if buckets > 0 else [30, 5]
        q, k, v, out = [], [], [], []
        with torch.no_grad():
            rel_k, rel_q = layer.key_proj(table_).float(), layer.query_proj(table_).float()
            # the op sees float32 operands: make the module use exactly those
            for n in lens:
                x = d(r.f(1, n, hidden))
                parts = [f(x).float().double() for f in (layer.query_proj, layer.key_proj, layer.value_proj)]
                q.append(parts[0][0]), k.append(parts[1][0]), v.append(parts[2][0])
                mask = torch.ones(1, 1, n, n)
                y, _ = layer(x, mask, rel_embeddings=table_)
                out.append(y[0])
        scale = 1 / math.sqrt(hidden // heads * (1 + len(kinds)))
        roles = "iii-----" + ("i" if "c2p" in kinds else "-") + ("i" if "p2c" in kinds else "-")
        add("ATTENTION", name, [torch.cat(q).float(), torch.cat(k).float(), torch.cat(v).float(), None, None, None, None, None,
                                rel_k if "c2p" in kinds else None, rel_q if "p2c" in kinds else None], [torch.cat(out)],
            {"heads": heads, "kv_heads": heads, "scale": scale, "bias_kind": KIND["BIAS", "disentangled"], "rel_span": span, "rel_buckets": buckets,
             "max_distance": longest, "q_space": 0, "kv_space": 0}, roles, spaces=[{"ragged": True}], space=[0, 0, 0] + [-1] * (len(roles) - 3), lengths={0: lens})


def state_attention_cases():
    r = Random("attention state")
    h, kv, dk, dv = 4, 2, 8, 12
    # two sequences, three runs (prefill, decode, prefill again); the last one leaves sequence 7 out and brings a new one
    parts = [{7: 5, 3: 2}, {7: 1, 3: 1}, {3: 4, 9: 3}]
    total = {7: 6, 3: 7, 9: 3}
    data = {s: (r.f(n, h * dk), r.f(n, kv * dk), r.f(n, kv * dv)) for s, n in total.items()}
    full = {s: Attend(h, kv, 0.35, causal=True).item(*data[s], torch.arange(n), torch.arange(n))[0] for s, n in total.items()}
    done, ins, outs, lens = dict.fromkeys(total, 0), [], [], []
    for run in parts:
        cut = {s: slice(done[s], done[s] + n) for s, n in run.items()}
        ins.append([torch.cat([data[s][i][cut[s]] for s in run]) for i in range(3)])
        outs.append([torch.cat([full[s][cut[s]] for s in run])])
        lens.append({0: list(run.values())})
        for s, n in run.items():
            done[s] += n
    add("ATTENTION", "state", ins, outs, {"heads": h, "kv_heads": kv, "scale": 0.35, "causal": 1, "q_space": 0, "kv_space": 0}, "iii", spaces=[{"ragged": True}],
        space=[0, 0, 0], lengths=lens, state={"kind": 1, "heads": kv, "k_dim": dk, "v_dim": dv, "window": 0}, sequences=[list(p) for p in parts])
    # pages: 600 rows, then one more
    q, k, v = r.f(601, 4), r.f(601, 4), r.f(601, 4)
    y = Attend(1, 1, 0.5, causal=True, left=400).item(q, k, v, torch.arange(601), torch.arange(601))[0]
    add("ATTENTION", "state_pages", [[q[:600], k[:600], v[:600]], [q[600:], k[600:], v[600:]]], [[y[:600]], [y[600:]]],
        {"heads": 1, "kv_heads": 1, "scale": 0.5, "causal": 1, "window_left": 400, "q_space": 0, "kv_space": 0}, "iii", spaces=[{"ragged": True}], space=[0, 0, 0],
        lengths=[{0: [600]}, {0: [1]}], state={"kind": 1, "heads": 1, "k_dim": 4, "v_dim": 4, "window": 0}, sequences=[[0], [0]])
    # state_static: nothing is there yet, so everything is zero, and stays so
    q, k, v = r.f(3, 4), r.f(3, 4), r.f(3, 4)
    zero = torch.zeros(3, 4)
    add("ATTENTION", "state_static_empty", [[q, k, v], [q, k, v]], [[zero], [zero]], {"heads": 1, "kv_heads": 1, "scale": 0.5, "q_space": 0, "kv_space": 0, "state_static": 1}, "iii",
        spaces=[{"ragged": True}], space=[0, 0, 0], lengths=[{0: [3]}, {0: [3]}], state={"kind": 2, "heads": 1, "k_dim": 4, "v_dim": 4, "window": 0}, sequences=[[0], [0]])


# ---- rope ----

def rope_cases():
    from transformers.models.llama.modeling_llama import apply_rotary_pos_emb
    from transformers.models.gptj.modeling_gptj import apply_rotary_pos_emb as gptj_rotary
    r = Random("rope")
    t, heads = 6, 3

    def angles(pos, inv):  # float32, as the classes compute them
        return (pos.float()[:, None] * inv.float()[None, :])

    for name, head, rot, theta, mscale in (("half", 8, 8, 10000.0, 1.0), ("half_partial", 12, 8, 500000.0, 1.25), ("half_two", 2, 2, 10000.0, 1.0)):
        x, pos = r.f(t, heads * head), r.i(0, 500, t)
        inv = (1.0 / theta ** (torch.arange(0, rot, 2, dtype=torch.int64).float() / rot))
        a = angles(pos, inv)
        e = torch.cat([a, a], 1).double()
        cos, sin = e.cos() * mscale, e.sin() * mscale
        v = d(x).reshape(1, t, heads, head).transpose(1, 2)
        y, _ = apply_rotary_pos_emb(v[..., :rot], v[..., :rot], cos[None], sin[None])
        y = torch.cat([y, v[..., rot:]], -1).transpose(1, 2).reshape(t, heads * head)
        attrs = {"head_dim": head, "rope_style": KIND["ROPE", "half"], "rot_dims": rot, "mscale": mscale}
        add("ROPE", name, [x, pos, inv], [y], attrs, "iiw")
        if mscale == 1.0:
            add("ROPE", name + "_theta", [x, pos], [y], {**attrs, "theta": theta}, "ii")
    x, pos, head, rot = r.f(t, heads * 10), r.i(0, 90, t), 10, 6
    inv = 1.0 / 10000.0 ** (torch.arange(0, rot, 2).float() / rot)
    a = angles(pos, inv).double()
    v = d(x).reshape(1, t, heads, head)
    y = torch.cat([gptj_rotary(v[..., :rot], a.sin()[None], a.cos()[None]), v[..., rot:]], -1).reshape(t, -1)
    add("ROPE", "interleaved", [x, pos, inv], [y], {"head_dim": head, "rope_style": KIND["ROPE", "interleaved"], "rot_dims": rot}, "iiw")
    # frequencies of each row: scalings by length
    x, pos, head, rot = r.f(t, heads * 10), r.i(0, 90, t), 10, 6
    inv = torch.stack([1.0 / (100.0 * (1 + i)) ** (torch.arange(0, rot, 2).float() / rot) for i in range(t)])
    a = pos.float()[:, None] * inv
    e = torch.cat([a, a], 1).double()
    v = d(x).reshape(1, t, heads, head).transpose(1, 2)
    y, _ = apply_rotary_pos_emb(v[..., :rot], v[..., :rot], e.cos()[None], e.sin()[None])
    y = torch.cat([y, v[..., rot:]], -1).transpose(1, 2).reshape(t, heads * head)
    add("ROPE", "rows", [x, pos, inv], [y], {"head_dim": head, "rope_style": KIND["ROPE", "half"], "rot_dims": rot}, "iii")
    # M-RoPE
    head, sections = 16, [2, 3, 3]
    x, pos = r.f(t, heads * head), r.i(0, 60, 3, t)
    inv = 1.0 / 10000.0 ** (torch.arange(0, head, 2).float() / head)
    a = pos.float()[:, :, None] * inv[None, None, :]
    a = torch.cat([m[i % 3] for i, m in enumerate(a.split(sections, dim=-1))], -1)  # as Qwen2VLRotaryEmbedding.apply_mrope
    e = torch.cat([a, a], -1).double()[None]
    v = d(x).reshape(1, t, heads, head).transpose(1, 2)
    y, _ = apply_rotary_pos_emb(v, v, e.cos(), e.sin())
    add("ROPE", "sections", [x, pos, inv], [y.transpose(1, 2).reshape(t, -1)], {"head_dim": head, "rope_style": KIND["ROPE", "half"], "rot_dims": head, "sections": sections}, "iiw")


# ---- state space ----

def scan_rows(x, dt, a, b, c, dd, z, bias, version, groups=1, softplus=True, low=None, high=None, h=None):
    """As MambaMixer.slow_forward and Mamba2Mixer.torch_forward step."""
    t = x.shape[0]
    heads = a.shape[0]
    p = x.shape[1] // heads
    n = b.shape[1] // groups
    v = d(dt) + (d(bias) if bias is not None else 0)
    v = F.softplus(v, threshold=1e9) if softplus else v
    v = v.clamp(low, high) if low is not None else v
    h = torch.zeros(heads, p, n, dtype=torch.float64) if h is None else h.clone()
    out = []
    for i in range(t):
        rate = torch.exp(v[i][:, None, None] * (d(a)[:, None, :] if version == 1 else d(a)[:, None, None]))
        bi = d(b[i]).reshape(groups, n).repeat_interleave(heads // groups, 0)
        ci = d(c[i]).reshape(groups, n).repeat_interleave(heads // groups, 0)
        xi = d(x[i]).reshape(heads, p)
        h = rate * h + (v[i][:, None] * xi)[:, :, None] * bi[:, None, :]
        y = (h * ci[:, None, :]).sum(-1)
        if dd is not None:
            y = y + d(dd)[:, None] * xi
        y = y.reshape(-1)
        out.append(y * F.silu(d(z[i])) if z is not None else y)
    return torch.stack(out), h


def scan_cases():
    r = Random("scan")
    lens, t, dim, n = [6, 1, 9], 16, 7, 5
    x, dt, a, b, c, dd, z, bias = r.f(t, dim), r.f(t, dim), -r.f(dim, n).abs(), r.f(t, n), r.f(t, n), r.f(dim), r.f(t, dim), r.f(dim)
    cut = lambda v, i: None if v is None else v.split(lens)[i]

    def run(version, dt_, a_, b_, c_, d_, z_, bias_, x_=x, **kw):
        return torch.cat([scan_rows(cut(x_, i), cut(dt_, i), a_, cut(b_, i), cut(c_, i), d_, cut(z_, i), bias_, version, **kw)[0] for i in range(len(lens))])

    one = dict(spaces=[{"ragged": True}], lengths={0: lens})
    sp = [0, 0, -1, 0, 0, -1, 0, -1]
    add("SELECTIVE_SCAN", "mamba", [x, dt, a, b, c, dd, z, bias], [run(1, dt, a, b, c, dd, z, bias)], {"version": 1, "dt_softplus": 1, "space": 0}, "iiwiiwiw", space=sp, **one)
    add("SELECTIVE_SCAN", "mamba_bare", [x, dt.abs(), a, b, c], [run(1, dt.abs(), a, b, c, None, None, None, softplus=False)], {"version": 1, "dt_softplus": 0, "space": 0}, "iiwii", space=sp[:5], **one)
    heads, p, groups = 6, 3, 2
    x, dt, a = r.f(t, heads * p), r.f(t, heads), -r.f(heads).abs()
    b, c, dd, z, bias = r.f(t, groups * n), r.f(t, groups * n), r.f(heads), r.f(t, heads * p), r.f(heads)
    low, high = f32(0.1), f32(1.5)
    add("SELECTIVE_SCAN", "mamba2", [x, dt, a, b, c, dd, z, bias], [run(2, dt, a, b, c, dd, z, bias, x_=x, groups=groups, low=low, high=high)],
        {"version": 2, "groups": groups, "dt_softplus": 1, "dt_min": low, "dt_max": high, "space": 0}, "iiwiiwiw", space=sp, **one)
    y, _ = scan_rows(x, dt, a, b, c, dd, None, bias, 2, groups)
    parts = [slice(0, 9), slice(9, 10), slice(10, 16)]
    ins = [[x[s], dt[s], a, b[s], c[s], dd, None, bias] for s in parts]
    add("SELECTIVE_SCAN", "mamba2_state", ins, [[y[s]] for s in parts], {"version": 2, "groups": groups, "dt_softplus": 1, "space": 0}, "iiwiiw-w", space=sp, spaces=[{"ragged": True}],
        lengths=[{0: [9]}, {0: [1]}, {0: [6]}], state={"kind": 4, "heads": heads, "k_dim": p, "v_dim": n, "window": 0}, sequences=[[5], [5], [5]])
    first = scan_rows(x[:4], dt[:4], a, b[:4], c[:4], dd, None, bias, 2, groups)[0]
    add("SELECTIVE_SCAN", "mamba2_static", [[x[:4], dt[:4], a, b[:4], c[:4], dd, None, bias]] * 2, [[first], [first]],
        {"version": 2, "groups": groups, "dt_softplus": 1, "space": 0, "state_static": 1}, "iiwiiw-w", space=sp, spaces=[{"ragged": True}],
        lengths=[{0: [4]}, {0: [4]}], state={"kind": 4, "heads": heads, "k_dim": p, "v_dim": n, "window": 0}, sequences=[[5], [5]])


def delta_rows(q, k, v, g, beta, heads, eps=0.0, scale=None, s=None):
    """As torch_recurrent_gated_delta_rule of modeling_qwen3_next.py, in double precision."""
    t, v_heads = g.shape
    dk, dv = q.shape[1] // heads, v.shape[1] // v_heads
    q, k = (d(x).reshape(t, heads, dk) for x in (q, k))
    if eps:
        q, k = (x * torch.rsqrt((x * x).sum(-1, keepdim=True) + eps) for x in (q, k))
    q, k = (x.repeat_interleave(v_heads // heads, 1) for x in (q * (scale or dk ** -0.5), k))
    v = d(v).reshape(t, v_heads, dv)
    s = torch.zeros(v_heads, dk, dv, dtype=torch.float64) if s is None else s.clone()
    out = []
    for i in range(t):
        s = s * d(g[i]).exp()[:, None, None]
        change = (v[i] - (s * k[i][:, :, None]).sum(1)) * d(beta[i])[:, None]
        s = s + k[i][:, :, None] * change[:, None, :]
        out.append((s * q[i][:, :, None]).sum(1).reshape(-1))
    return torch.stack(out), s


def check_delta(ins, heads, y):
    """Both functions of transformers, which compute in fp32 and always normalise, agree."""
    from transformers.models.qwen3_next import modeling_qwen3_next as theirs
    q, k, v, g, beta = ins
    t, v_heads = g.shape
    shaped = [x.reshape(1, t, n, -1) for x, n in ((q, heads), (k, heads), (v, v_heads))]
    for rule in (theirs.torch_recurrent_gated_delta_rule, theirs.torch_chunk_gated_delta_rule):
        out, _ = rule(*shaped, g=g[None], beta=beta[None], use_qk_l2norm_in_kernel=True)
        assert (d(out).reshape(t, -1) - y).abs().max() < 1e-5, rule


def delta_cases():
    r = Random("delta")

    def inputs(t, heads, v_heads, dk, dv):
        return [r.f(t, heads * dk), r.f(t, heads * dk), r.f(t, v_heads * dv), -F.softplus(r.f(t, v_heads)), torch.sigmoid(r.f(t, v_heads))]

    cut = lambda ins, first, n: [x[first:first + n] for x in ins]
    eps = f32(1e-6)
    one = dict(space=[0] * 5, spaces=[{"ragged": True}])
    for name, lens, heads, v_heads, dk, dv in (("shared", [70, 1, 9], 2, 4, 12, 10), ("block", [19], 1, 2, 64, 64), ("wide", [5], 1, 1, 131, 37)):
        ins = inputs(sum(lens), heads, v_heads, dk, dv)
        y = torch.cat([delta_rows(*cut(ins, sum(lens[:i]), n), heads, eps)[0] for i, n in enumerate(lens)])
        check_delta(cut(ins, 0, lens[0]), heads, y[:lens[0]])
        add("GATED_DELTA_RULE", name, ins, [y], {"heads": heads, "eps": eps, "space": 0}, lengths={0: lens}, **one)
    ins = inputs(21, 3, 3, 7, 5)
    ins[0], ins[1] = 0.2 * ins[0], 0.2 * ins[1]  # longer ones make the state grow
    scale = f32(0.7)
    add("GATED_DELTA_RULE", "bare", ins, [delta_rows(*ins, 3, 0.0, scale)[0]], {"heads": 3, "scale": scale, "space": 0}, lengths={0: [21]}, **one)
    heads, v_heads, dk, dv = 2, 6, 9, 11
    two = [inputs(27, heads, v_heads, dk, dv), inputs(20, heads, v_heads, dk, dv)]
    whole = [delta_rows(*x, heads, eps)[0] for x in two]
    state = {"kind": 4, "heads": v_heads, "k_dim": dk, "v_dim": dv, "window": 0}
    steps = [(9, 17), (1, 1), (17, 2)]  # rows of either sequence
    runs, outs, at = [], [], [0, 0]
    for n in steps:
        runs.append([torch.cat(x) for x in zip(*(cut(two[i], at[i], n[i]) for i in range(2)))])
        outs.append([torch.cat([whole[i][at[i]:at[i] + n[i]] for i in range(2)])])
        at = [a + b for a, b in zip(at, n)]
    attrs = {"heads": heads, "eps": eps, "space": 0}
    add("GATED_DELTA_RULE", "state", runs, outs, attrs, lengths=[{0: list(n)} for n in steps], state=state, sequences=[[5, 8]] * 3, **one)
    ins = cut(two[0], 0, 4)
    add("GATED_DELTA_RULE", "static", [ins] * 2, [[whole[0][:4]]] * 2, {**attrs, "state_static": 1}, lengths=[{0: [4]}] * 2, state=state, sequences=[[5]] * 2, **one)
