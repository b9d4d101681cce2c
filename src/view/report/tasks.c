/* What tasks of asyncio did and where they wait: in the text report and in its JSON. */
#include "base/human.h"
#include "view/report/parts.h"

enum { SHOWN = 8, PLACES_SHOWN = 4, NAME_WIDTH = 31, PROCESS_WIDTH = 12, MOST_JSON = 1024 };

struct human infp_report_task_share(const struct infp_task *task, double seconds)
{
        return infp_fixed(task->total_s > 0 ? 100 * seconds / task->total_s : 0, 1);
}

static void put_task(struct infp_out *out, const struct infp_tasks *tasks, const struct infp_task *task)
{
        infp_report_put(out, "  ");
        infp_report_put_padded(out, infp_report_string(&tasks->strings, task->name), NAME_WIDTH, false);
        infp_report_put(out, " %9s", infp_report_seconds(task->total_s).text);
        for (unsigned i = 0; i < INFP_TASK_DOES; i++)
                infp_report_put(out, " %6s %%", infp_report_task_share(task, task->seconds[i]).text);
        infp_report_put(out, "  ");
        infp_report_put_padded(out, infp_report_string(&tasks->strings, task->process), PROCESS_WIDTH, true);
        infp_report_end(out);
        for (uint32_t i = 0; i < task->places.n && i < PLACES_SHOWN; i++) { /* bound: the task's figures have all */
                infp_autostr struct infp_str words = { 0 };

                infp_report_place(&words, &tasks->strings, &task->places.list[i]);
                infp_report_put(out, "    %6s %%  %s", infp_report_task_share(task, task->places.list[i].seconds).text,
                                words.data ? words.data : "");
                infp_report_end(out);
        }
}

void infp_report_tasks(struct infp_out *out, const struct infp_report *report)
{
        const struct infp_tasks *tasks = &report->tasks;

        if (!tasks->n)
                return;
        infp_report_title(out, "Tasks of asyncio, where they wait      time   awaits    ready     runs  process");
        for (uint32_t i = 0; i < tasks->n && i < SHOWN; i++) /* bound: the rest is counted below */
                put_task(out, tasks, &tasks->list[i]);
        if (tasks->n > SHOWN)
                infp_report_line(out, "", "tasks of %s more name%s", infp_count(tasks->n - SHOWN).text,
                                 tasks->n - SHOWN == 1 ? "" : "s");
        infp_report_line(out, "estimated", "%s", infp_report_tasks_note);
}

const char infp_report_tasks_note[] = "shares of the time of all tasks of a name together, from samples of --async: a "
                                      "task awaits something, is ready "
                                      "while its loop is busy with others, or runs";

static void put_json_task(struct infp_json *json, const struct infp_tasks *tasks, const struct infp_task *task)
{
        static const char *const keys[INFP_TASK_DOES] = {
                [INFP_TASK_AWAITS] = "awaits_s", [INFP_TASK_READY] = "ready_s", [INFP_TASK_RUNS] = "runs_s"
        };

        infp_json_object(json);
        infp_json_member_str(json, "name", infp_strings_get(&tasks->strings, task->name));
        infp_json_key(json, "pid");
        if (task->pid)
                infp_json_i64(json, task->pid);
        else
                infp_json_null(json);
        infp_json_member_str(json, "process", infp_strings_get(&tasks->strings, task->process));
        infp_json_member_f64(json, "total_s", task->total_s);
        for (unsigned i = 0; i < INFP_TASK_DOES; i++)
                infp_json_member_f64(json, keys[i], task->seconds[i]);
        infp_report_json_places(json, &tasks->strings, &task->places);
        infp_json_object_end(json);
}

/* null: not sampled, or no task was seen. */
void infp_report_json_tasks(struct infp_json *json, const struct infp_report *report)
{
        const struct infp_tasks *tasks = &report->tasks;

        infp_json_key(json, "tasks");
        if (!tasks->n) {
                infp_json_null(json);
                return;
        }
        infp_json_object(json);
        infp_json_key(json, "names");
        infp_json_array(json);
        for (uint32_t i = 0; i < tasks->n && i < MOST_JSON; i++) /* bound: the rest is counted below */
                put_json_task(json, tasks, &tasks->list[i]);
        infp_json_array_end(json);
        infp_json_member_u64(json, "names_left_out", tasks->n > MOST_JSON ? tasks->n - MOST_JSON : 0);
        infp_json_object_end(json);
}
