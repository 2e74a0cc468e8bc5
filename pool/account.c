/* Tallies and sums; see account.h. */
#include "pool/account.h"

void gp_stat_add(struct gp_stat *stat, uint64_t amount)
{
	stat->current += amount;
	stat->allocated += amount;
	if (stat->current > stat->peak)
		stat->peak = stat->current;
}

void gp_stat_sub(struct gp_stat *stat, uint64_t amount)
{
	stat->current -= amount;
	stat->freed += amount;
}

void gp_stat_observe(struct gp_stat *stat, uint64_t value)
{
	if (value > stat->current)
		gp_stat_add(stat, value - stat->current);
	else
		gp_stat_sub(stat, stat->current - value);
}

void gp_tally_levels(const struct gp_tally *tally, int64_t levels[GP_M_NUM])
{
	for (int i = 0; i < GP_M_NUM; i++)
		levels[i] = tally->flow[i].level;
}

static void lift(uint64_t *peak, int64_t level)
{
	if (level > 0 && (uint64_t)level > *peak)
		*peak = (uint64_t)level;
}

void gp_account_peak(struct gp_account *account, const struct gp_tally *tally,
		     const int64_t others[GP_M_NUM])
{
	int64_t level[GP_M_NUM];

	for (int i = 0; i < GP_M_NUM; i++) {
		struct gp_stat *sum = &account->sum[i];

		level[i] =
			(int64_t)sum->current + others[i] + tally->flow[i].high;
		lift(&sum->peak, level[i]);
	}
	/* When all stood highest, large ones did not stand above their highest:
	 * small ones had at least the rest. */
	for (int i = 0; i < GP_M_LARGE; i++)
		lift(&account->small_peak[i], level[i] - level[GP_M_LARGE + i]);
	lift(&account->section.allocated, level[GP_M_ALLOCATED]);
	lift(&account->most_live, level[GP_M_ALLOCATED]);
}

void gp_account_fold(struct gp_account *account, struct gp_tally *tally)
{
	for (int i = 0; i < GP_M_NUM; i++) {
		struct gp_stat *sum = &account->sum[i];
		struct gp_flow *flow = &tally->flow[i];

		sum->current += (uint64_t)flow->level;
		sum->allocated += flow->added;
		sum->freed += flow->added - (uint64_t)flow->level;
		*flow = (struct gp_flow){0};
	}
	account->waits += tally->waits;
	tally->waits = 0;
}
