// Works for some seconds under its own profiler: what infprof says of a Go program is compared with what it says of itself.
//
//	go_program SECONDS PROFILE
package main

import (
	"bytes"
	"compress/flate"
	"crypto/sha256"
	"encoding/json"
	"os"
	"runtime/pprof"
	"sort"
	"strconv"
	"sync"
	"time"
)

//go:noinline
func hash(n int) byte {
	block := make([]byte, 4096)
	for i := 0; i < n; i++ {
		sum := sha256.Sum256(block)
		copy(block, sum[:])
	}
	return block[0]
}

//go:noinline
func sorted(n int) int {
	numbers := make([]int, n)
	x := uint32(1)
	for i := range numbers {
		x = x*1664525 + 1013904223
		numbers[i] = int(x)
	}
	sort.Ints(numbers)
	return numbers[0]
}

//go:noinline
func text(n int) int {
	rows := map[string]interface{}{}
	for i := 0; i < n; i++ {
		rows[strconv.Itoa(i)] = []float64{float64(i), 0.5, 1e9}
	}
	data, _ := json.Marshal(rows)
	var out bytes.Buffer
	w, _ := flate.NewWriter(&out, 6)
	w.Write(data)
	w.Close()
	return out.Len()
}

//go:noinline
func deep(n int) int {
	if n > 0 {
		return deep(n-1) + 1
	}
	x := 0
	for i := 0; i < 200000; i++ {
		x = x*31 + i
	}
	return x
}

func main() {
	seconds, _ := strconv.ParseFloat(os.Args[1], 64)
	file, err := os.Create(os.Args[2])
	if err != nil {
		panic(err)
	}
	end := time.Now().Add(time.Duration(seconds * float64(time.Second)))
	pprof.StartCPUProfile(file)
	var all sync.WaitGroup
	for i := 0; i < 2; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for time.Now().Before(end) {
				hash(60)
				sorted(3000)
				text(120)
				deep(100)
			}
		}()
	}
	all.Wait()
	pprof.StopCPUProfile()
	file.Close()
}
