package cli

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"
)

// A reading that takes long is reported after two seconds, and every five then.
func TestLongReadingIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		progress := progressOf(&out)
		for pods := 1000; pods <= 10000; pods += 1000 {
			wait := time.NewTimer(time.Second)
			<-wait.C
			progress(pods)
		}
		want := "reading the cluster: 3000 pods so far\nreading the cluster: 9000 pods so far\n"
		if out.String() != want {
			t.Errorf("reported:\n%s", &out)
		}
	})
}
