package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
)

// caseResult is the line that answers a case: one evaluation for each attempt of each pending pod.
type caseResult struct {
	Results []*evaluation `json:"results"`
	Error   string        `json:"error,omitempty"`
}

// runBatch answers every line of input by one of output, in the same order.
func runBatch(input io.Reader, output *bufio.Writer, workers int, alone bool, plane *controlPlane) error {
	type job struct {
		line   []byte
		result chan *caseResult
	}
	jobs := make(chan job)
	answers := make(chan chan *caseResult, 4*workers)
	for range workers {
		go func() {
			for job := range jobs {
				job.result <- runCase(job.line, alone, plane)
			}
		}()
	}
	read := make(chan error, 1)
	go func() {
		defer close(answers)
		defer close(jobs)
		reader := bufio.NewReaderSize(input, 1<<20)
		for {
			line, err := reader.ReadBytes('\n')
			if len(line) > 1 {
				result := make(chan *caseResult, 1)
				answers <- result
				jobs <- job{line, result}
			}
			if err != nil {
				if errors.Is(err, io.EOF) {
					err = nil
				}
				read <- err
				return
			}
		}
	}()
	for answer := range answers {
		if err := writeLine(output, <-answer); err != nil {
			return err
		}
		// The caller may wait for this answer before it writes its next case.
		if len(answers) == 0 {
			if err := output.Flush(); err != nil {
				return err
			}
		}
	}
	return <-read
}

// runCase answers one case. One that makes the scheduler panic is an error of that case alone.
func runCase(line []byte, alone bool, plane *controlPlane) (result *caseResult) {
	result = &caseResult{Results: []*evaluation{}}
	defer func() {
		if cause := recover(); cause != nil {
			result = &caseResult{Error: fmt.Sprintf("panic: %v\n%s", cause, debug.Stack())}
		}
	}()
	cluster, err := readCase(line)
	if err == nil {
		emit := func(evaluation *evaluation) error {
			result.Results = append(result.Results, evaluation)
			return nil
		}
		switch {
		case plane != nil:
			err = through(plane, cluster, emit)
		case alone || cluster.independent:
			err = independent(cluster, emit)
		default:
			err = commit(cluster, cluster.follow, emit)
		}
	}
	if err != nil {
		result.Error = err.Error()
	}
	return result
}
