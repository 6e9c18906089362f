package toolset

import (
	"fmt"
	"time"
	_ "time/tzdata" // zones without the host's files, which loopd may not read
)

// Clock writes the time as the model reads it, in the zone asked for, or in
// now's own if zone is empty or unknown (DecodeCall lets no unknown one through):
//
//	Saturday 2026-11-28 14:03:05, Europe/Berlin (UTC+01:00), week 48
func Clock(now time.Time, zone string) string {
	if zone != "" {
		if loc, err := time.LoadLocation(zone); err == nil {
			now = now.In(loc)
		}
	}
	name := now.Location().String()
	if name == "Local" {
		name, _ = now.Zone()
	}
	_, week := now.ISOWeek()
	return fmt.Sprintf("%s, %s (UTC%s), week %d", now.Format("Monday 2006-01-02 15:04:05"), name, now.Format("-07:00"), week)
}
