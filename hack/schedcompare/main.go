// Command schedcompare runs kube-scheduler's own framework and plugins, as a library, on the objects of a file: what its
// filters and scores say of every node for every pending pod. It is the oracle for schedulers that claim the same
// semantics. README.md tells how to use it.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/spf13/pflag"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run returns 0, 1 where the scheduler failed or another one disagrees, or 2 where the input cannot be used.
func run(args []string, input io.Reader, output, messages io.Writer) int {
	flags := pflag.NewFlagSet("schedcompare", pflag.ContinueOnError)
	flags.SetOutput(messages)
	files := flags.StringArrayP("file", "f", nil, "a file of YAML documents or JSON, or -; may be repeated")
	alone := flags.Bool("independent", false, "evaluate each pending pod alone in the cluster as given")
	committing := flags.Bool("commit", false, "carry out each choice before the next pod (default)")
	follow := flags.String("follow", "", "a JSON list of decisions to carry out instead, as [{pod, node, nominatedNode, victims}]")
	batch := flags.Bool("batch", false, "read a case a line from standard input: a JSON List; write a line of results for each")
	workers := flags.Int("workers", runtime.NumCPU(), "cases of --batch at the same time")
	kubeconfig := flags.String("through", "", "have the kube-scheduler of this empty control plane on 127.0.0.1 decide, and compare")
	benchmark := flags.Bool("bench", false, "measure how long the pending pods take, in process")
	parallelism := flags.Int32("parallelism", 16, "of --bench, as kube-scheduler's")
	percentage := flags.Int32("percentage-of-nodes-to-score", 100, "of --bench")
	limit := flags.Duration("max-time", 0, "of --bench: try no further pod after this time, as 60s (default none)")
	gates := flags.String("feature-gates", "", "of kube-scheduler, as A=true,B=false")
	if err := flags.Parse(args); errors.Is(err, pflag.ErrHelp) {
		return 0
	} else if err != nil {
		fmt.Fprintln(messages, "schedcompare:", err)
		return 2
	}
	refuse := func(err error) int {
		fmt.Fprintln(messages, "schedcompare:", err)
		return 2
	}
	switch {
	case flags.NArg() > 0:
		return refuse(fmt.Errorf("unexpected argument %q", flags.Arg(0)))
	case *alone && *committing:
		return refuse(errors.New("--independent and --commit exclude each other"))
	case *batch && (len(*files) > 0 || *follow != "" || *benchmark):
		return refuse(errors.New("--batch reads standard input: no --file, --follow or --bench"))
	case !*batch && len(*files) == 0:
		return refuse(errors.New("expected --file or --batch"))
	case *follow != "" && (*alone || *benchmark || *kubeconfig != ""):
		return refuse(errors.New("--follow is for --commit"))
	case *kubeconfig != "" && *alone:
		return refuse(errors.New("--through is for --commit and --bench"))
	case *workers < 1 || *parallelism < 1 || *percentage < 0 || *percentage > 100:
		return refuse(errors.New("expected --workers and --parallelism of 1 or more, and a percentage of 0 to 100"))
	}
	if err := utilfeature.DefaultMutableFeatureGate.Set(*gates); err != nil {
		return refuse(fmt.Errorf("--feature-gates: %w", err))
	}
	silence()

	writer := bufio.NewWriter(output)
	defer writer.Flush()
	var plane *controlPlane
	if *kubeconfig != "" {
		var err error
		if plane, err = connect(*kubeconfig); err != nil {
			return refuse(err)
		}
		*workers = 1
	}
	if *batch {
		if err := runBatch(input, writer, *workers, *alone, plane); err != nil {
			fmt.Fprintln(messages, "schedcompare:", err)
			return 1
		}
		return plane.report(messages)
	}
	cluster, err := readFiles(*files)
	if err != nil {
		return refuse(err)
	}
	for _, kind := range sortedKeys(cluster.ignored) {
		fmt.Fprintf(messages, "schedcompare: %d of kind %s are not read by the scheduler\n", cluster.ignored[kind], kind)
	}
	var decisions []decision
	if *follow != "" {
		if decisions, err = readDecisions(*follow); err != nil {
			return refuse(err)
		}
	}
	emit := func(result *evaluation) error { return writeLine(writer, result) }
	switch {
	case *benchmark:
		var figures *figures
		if plane != nil {
			figures, err = benchThrough(plane, cluster, *limit)
		} else {
			figures, err = bench(cluster, *parallelism, *percentage, *limit)
		}
		if err == nil {
			err = writeLine(writer, figures)
		}
	case *alone:
		err = independent(cluster, emit)
	case plane != nil:
		err = through(plane, cluster, emit)
	default:
		err = commit(cluster, append(cluster.follow, decisions...), emit)
	}
	if err != nil {
		writer.Flush()
		fmt.Fprintln(messages, "schedcompare:", err)
		return 1
	}
	return plane.report(messages)
}

// silence keeps what the scheduler logs of odd input, and the pause that it makes after each, out of the way: refusals and
// errors are in the results.
func silence() {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	utilruntime.ErrorHandlers = nil
}

func readDecisions(path string) ([]decision, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var decisions []decision
	if err := json.Unmarshal(text, &decisions); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return decisions, nil
}

func writeLine(writer io.Writer, value any) error {
	line, err := json.Marshal(value)
	if err != nil {
		return err
	}
	_, err = writer.Write(append(line, '\n'))
	return err
}
