"""Integer programs solved to the end by HiGHS."""
import itertools

import highspy
import numpy as np


class Program:
    """Minimises a cost over variables with bounds, each a whole number unless it is said to be a fraction."""

    def __init__(self):
        self.costs, self.uppers, self.is_whole, self.rows = [], [], [], []

    def variable(self, cost=0.0, upper=highspy.kHighsInf, whole=True):
        self.costs.append(cost)
        self.uppers.append(upper)
        self.is_whole.append(whole)
        return len(self.costs) - 1

    def row(self, terms, at_least=-highspy.kHighsInf, at_most=highspy.kHighsInf):
        """`terms` is {variable: factor}."""
        self.rows.append((terms, at_least, at_most))

    def solve(self, seconds):
        """(least cost, values), or None where nothing is feasible. TimeoutError if it takes longer."""
        if not self.costs:
            return (0.0, []) if all(low <= 0 <= high for _, low, high in self.rows) else None
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = len(self.costs), len(self.rows)
        lp.col_cost_, lp.col_lower_ = np.array(self.costs, dtype=float), np.zeros(len(self.costs))
        lp.col_upper_ = np.array(self.uppers, dtype=float)
        lp.row_lower_ = np.array([low for _, low, _ in self.rows], dtype=float)
        lp.row_upper_ = np.array([high for _, _, high in self.rows], dtype=float)
        kinds = highspy.HighsVarType
        lp.integrality_ = [kinds.kInteger if whole else kinds.kContinuous for whole in self.is_whole]
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        starts = [0, *itertools.accumulate(len(terms) for terms, _, _ in self.rows)]
        lp.a_matrix_.start_ = np.array(starts, dtype=np.int32)
        lp.a_matrix_.index_ = np.array([at for terms, _, _ in self.rows for at in terms], dtype=np.int32)
        lp.a_matrix_.value_ = np.array([by for terms, _, _ in self.rows for by in terms.values()], dtype=float)
        highs = highspy.Highs()
        for option, value in [("output_flag", False), ("threads", 1), ("mip_rel_gap", 0.0), ("mip_abs_gap", 1e-9),
                              ("time_limit", float(seconds))]:
            highs.setOptionValue(option, value)
        highs.passModel(lp)
        highs.run()
        status = highs.getModelStatus()
        if status == highspy.HighsModelStatus.kInfeasible:
            return None
        if status != highspy.HighsModelStatus.kOptimal:
            raise TimeoutError(f"HiGHS ended with {highs.modelStatusToString(status)}")
        values = list(highs.getSolution().col_value)
        values = [round(value) if whole else value for value, whole in zip(values, self.is_whole)]
        return sum(cost * value for cost, value in zip(self.costs, values)), values


def fillings(counts, sizes, room, allows):
    """Every way to put some of what there is in a bin of such room, as tuples by item; `allows` decides the rest."""

    def more(at, left):
        if at == len(counts):
            yield ()
            return
        size = sizes[at]
        for n in range(counts[at] + 1):
            after = [there - n * each for there, each in zip(left, size)]
            if any(there < 0 for there in after):
                break
            for rest in more(at + 1, after):
                yield (n, *rest)

    if any(there < 0 for there in room):
        return []
    return [filling for filling in more(0, list(room)) if any(filling) and allows(filling)]
