// Command compare runs Karpenter's scheduler as a library on the input files of `berth plan`, so that both can be
// compared on the same pods, pools and instance types. It launches nothing and talks to no cluster.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/karpenter/pkg/operator/logging"
)

const (
	exitPlaced        = 0
	exitUnschedulable = 1
	exitBadInput      = 2
	exitFailed        = 3
)

type files []string

func (f *files) String() string     { return fmt.Sprint(*f) }
func (f *files) Set(v string) error { *f = append(*f, v); return nil }

func main() { os.Exit(mainWithCode()) }

func mainWithCode() int {
	log.SetLogger(logging.NopLogger)
	var inputs files
	var s settings
	flags := flag.NewFlagSet("compare", flag.ContinueOnError)
	flags.Var(&inputs, "f", "manifests: YAML documents, JSON, or - for standard input; may be repeated")
	types := flags.String("instance-types", "", "instance catalogue, as for berth plan")
	flags.StringVar(&s.mode, "mode", modeOneshot, "oneshot: a single Solve; strict-loops: until no pod waits for reserved capacity")
	flags.StringVar(&s.reserved, "reserved", reservedStrict, "reserved offering mode of a single Solve: strict (as the provisioner) or fallback")
	flags.IntVar(&s.workers, "workers", 5, "parallel candidates, as NumConcurrentReconciles; Karpenter's benchmark has 5")
	flags.Float64Var(&s.maxSeconds, "max-seconds", 0, "stop after so long and report what is placed; 0 is no limit")
	flags.BoolVar(&s.claims, "claims", false, "list each claim, and each pod that is not placed with its reason")
	consolidates := flags.Bool("consolidate", false, "launch the plan, take pods away, and run Karpenter's consolidation until it settles")
	var c consolidation
	keep := flags.String("keep", "0.6", "with --consolidate: the share of pods that stay, chosen at random; several, as 0.75,0.5, are steps")
	flags.Int64Var(&c.seed, "seed", 1, "with --consolidate: of the choice")
	flags.StringVar(&c.order, "order", "", "with --consolidate: a file of namespace/name lines, those first that stay longest, in place of --seed")
	flags.StringVar(&c.dump, "dump", "", "with --consolidate: write the cluster as it is when pods have gone, for berth plan")
	flags.Float64Var(&c.maxSeconds, "max-cpu-seconds", 0, "with --consolidate: begin no further pass after so many; 0 is no limit")
	flags.BoolVar(&c.progress, "progress", false, "with --consolidate: tell each pass on standard error")
	spotToSpot := flags.Bool("spot-to-spot", false, "with --consolidate: whether spot nodes may make way for spot")
	batch := flags.Bool("batch", false, `read cases {"manifests":[...],"instanceTypes":[...]} from standard input, one a line; answer each with a line`)
	output := flags.String("o", "json", "output: json")
	if err := flags.Parse(os.Args[1:]); err != nil {
		return exitBadInput
	}
	inputs = append(inputs, flags.Args()...)
	for _, text := range strings.Split(*keep, ",") {
		share, err := strconv.ParseFloat(text, 64)
		if err != nil || share < 0 || share > 1 || (len(c.keep) > 0 && share > c.keep[len(c.keep)-1]) {
			return fail(exitBadInput, fmt.Errorf("--keep %q: expected shares from 0 to 1, none above the one before", *keep))
		}
		c.keep = append(c.keep, share)
	}
	if err := s.check(); err != nil || *output != "json" {
		return fail(exitBadInput, fmt.Errorf("unknown mode or output: %w", err))
	}
	ctx := karpenterContext(*spotToSpot)
	if *batch {
		return runBatch(ctx, s, os.Stdin, os.Stdout)
	}
	if len(inputs) == 0 || *types == "" {
		return fail(exitBadInput, fmt.Errorf("-f and --instance-types are needed"))
	}
	start := time.Now()
	m := newManifests()
	for _, path := range inputs {
		if err := m.readFile(path); err != nil {
			return fail(exitBadInput, err)
		}
	}
	entries, err := readCatalogue(*types)
	if err != nil {
		return fail(exitBadInput, err)
	}
	if *consolidates {
		return runConsolidation(ctx, s, c, m, entries)
	}
	r, code, err := solve(ctx, s, m, entries, start)
	if err != nil {
		return fail(code, err)
	}
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(r); err != nil {
		return fail(exitFailed, err)
	}
	return code
}

func runConsolidation(ctx context.Context, s settings, c consolidation, m *manifests, entries []typeEntry) int {
	w, err := newWorld(ctx, m, entries)
	if err != nil {
		return fail(exitBadInput, err)
	}
	r, err := w.consolidate(ctx, s, c)
	if err != nil {
		return fail(exitFailed, err)
	}
	encoder := json.NewEncoder(os.Stdout)
	if err := encoder.Encode(r); err != nil {
		return fail(exitFailed, err)
	}
	return exitPlaced
}

func (s *settings) check() error {
	if s.mode != modeOneshot && s.mode != modeStrictLoops {
		return fmt.Errorf("--mode %q", s.mode)
	}
	if s.reserved != reservedStrict && s.reserved != reservedFall {
		return fmt.Errorf("--reserved %q", s.reserved)
	}
	if s.mode == modeStrictLoops {
		s.reserved = reservedStrict
	}
	return nil
}

// solve answers one input with a report and the exit code that berth plan would have. Karpenter's own panics on odd
// input are reported as failures.
func solve(ctx context.Context, s settings, m *manifests, entries []typeEntry, start time.Time) (r *report, code int, err error) {
	defer func() {
		if caught := recover(); caught != nil {
			r, code, err = nil, exitFailed, fmt.Errorf("panic in the scheduler: %v", caught)
		}
	}()
	w, err := newWorld(ctx, m, entries)
	if err != nil {
		return nil, exitBadInput, err
	}
	load := time.Since(start).Seconds()
	r, err = w.run(ctx, s)
	if err != nil {
		return nil, exitFailed, err
	}
	r.Seconds.Load = load
	if r.Placed < r.Pods {
		return r, exitUnschedulable, nil
	}
	return r, exitPlaced, nil
}

func fail(code int, err error) int {
	fmt.Fprintln(os.Stderr, "compare:", err)
	return code
}
