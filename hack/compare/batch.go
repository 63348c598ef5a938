package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// batchCase is one line of the input; mode and reserved override the flags.
type batchCase struct {
	Manifests     []json.RawMessage `json:"manifests"`
	InstanceTypes []typeEntry       `json:"instanceTypes"`
	Mode          string            `json:"mode"`
	Reserved      string            `json:"reserved"`
}

type batchError struct {
	Error string `json:"error"`
	Code  int    `json:"code"` // as the exit code of a single run
}

// runBatch answers each case with a report, or with an error and its code, and never stops at a bad case.
func runBatch(ctx context.Context, s settings, in io.Reader, out io.Writer) int {
	reader := bufio.NewReaderSize(in, 1<<20)
	writer := bufio.NewWriter(out)
	defer writer.Flush()
	for {
		line, err := reader.ReadBytes('\n')
		if len(line) > 1 {
			raw, failure := json.Marshal(answer(ctx, s, line))
			if failure != nil {
				return fail(exitFailed, failure)
			}
			if _, failure = writer.Write(append(raw, '\n')); failure != nil {
				return fail(exitFailed, failure)
			}
			if reader.Buffered() == 0 {
				_ = writer.Flush() // the asker may be waiting for this answer
			}
		}
		if errors.Is(err, io.EOF) {
			return exitPlaced
		}
		if err != nil {
			return fail(exitFailed, err)
		}
	}
}

func answer(ctx context.Context, s settings, line []byte) any {
	start := time.Now()
	var c batchCase
	if err := json.Unmarshal(line, &c); err != nil {
		return batchError{err.Error(), exitBadInput}
	}
	if c.Mode != "" {
		s.mode = c.Mode
	}
	if c.Reserved != "" {
		s.reserved = c.Reserved
	}
	if err := s.check(); err != nil {
		return batchError{fmt.Sprintf("unknown %v", err), exitBadInput}
	}
	m := newManifests()
	if err := m.addAll(c.Manifests); err != nil {
		return batchError{err.Error(), exitBadInput}
	}
	r, code, err := solve(ctx, s, m, c.InstanceTypes, start)
	if err != nil {
		return batchError{err.Error(), code}
	}
	return r
}
